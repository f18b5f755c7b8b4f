// Server-sent events out of a fetch body. (EventSource cannot POST.)

// The data of each event, in order. Comments and other fields are skipped; an event that the end of
// the stream cuts off is dropped, as the standard says.
export async function* eventData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let data: string[] = [];
  for await (const line of lines(body)) {
    if (line === '') {
      if (data.length > 0) yield data.join('\n');
      data = [];
    } else if (line.startsWith('data:')) {
      data.push(line.slice(line[5] === ' ' ? 6 : 5));
    }
  }
}

async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      const parts = (rest + decoder.decode(value, {stream: true})).split('\n');
      rest = parts.pop() ?? '';
      for (const part of parts) yield part.endsWith('\r') ? part.slice(0, -1) : part;
    }
  } finally {
    // Also where the consumer stops early: the server then hears that nobody listens.
    await reader.cancel().catch(() => undefined);
  }
}
