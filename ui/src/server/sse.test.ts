import {describe, expect, it} from 'vitest';
import {eventData} from './sse';

function stream(text: string, pieceBytes: number, onCancel?: () => void): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return new ReadableStream(
    {
      pull(controller) {
        if (at >= bytes.length) return controller.close();
        controller.enqueue(bytes.slice(at, at + pieceBytes));
        at += pieceBytes;
      },
      ...(onCancel && {cancel: onCancel}),
    },
    {highWaterMark: 0},
  );
}

async function all(text: string, pieceBytes = 1): Promise<string[]> {
  const found: string[] = [];
  for await (const data of eventData(stream(text, pieceBytes))) found.push(data);
  return found;
}

describe('eventData', () => {
  it('joins events that arrive byte by byte, characters of several bytes included', async () => {
    const text = 'data: {"a":"é🎉"}\n\ndata: b\r\n\r\n';
    for (const size of [1, 2, 3, 1000]) expect(await all(text, size)).toEqual(['{"a":"é🎉"}', 'b']);
  });

  it('skips comments and other fields', async () => {
    expect(await all(': ping\n\nevent: x\nid: 1\ndata:a\ndata: b\n\n')).toEqual(['a\nb']);
  });

  it('drops an event that was cut off', async () => {
    expect(await all('data: a\n\ndata: b\n')).toEqual(['a']);
  });

  it('closes the connection when nobody listens any more', async () => {
    let cancelled = false;
    const body = stream('data: a\n\ndata: b\n\n'.repeat(100), 10, () => (cancelled = true));
    for await (const data of eventData(body)) {
      expect(data).toBe('a');
      break;
    }
    expect(cancelled).toBe(true);
  });
});
