// POST /v1/chat/completions, streamed. The shapes are docs/http.md's; fields not shown are left out.
import {keyHeaders} from './api_key';
import {eventData} from './sse';

export interface WireToolCall {
  id: string;
  type: 'function';
  function: {name: string; arguments: string};
}

export type WireMessage =
  | {role: 'system' | 'user'; content: string}
  | {role: 'assistant'; content: string | null; reasoning_content?: string; tool_calls?: WireToolCall[]}
  | {role: 'tool'; tool_call_id: string; content: string};

export interface ChatBody {
  messages: WireMessage[];
  temperature?: number;
  top_p?: number;
  max_completion_tokens?: number;
  seed?: number;
  reasoning_effort?: string;
  tools?: unknown[];
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: {cached_tokens?: number; cache_miss?: string};
  completion_tokens_details?: {reasoning_tokens?: number};
}

export interface Timings {
  queue_ms: number;
  prefill_ms: number;
  decode_ms: number;
  decode_tokens_per_s: number;
}

export interface Chunk {
  choices: {
    delta: {
      content?: string;
      reasoning_content?: string;
      tool_calls?: {index: number; id?: string; function?: {name?: string; arguments?: string}}[];
    };
    finish_reason: string | null;
  }[];
  usage?: Usage;
  timings?: Timings;
}

// What the server says of a request that it refused or could not finish.
export class ServerError extends Error {}

// Calls `onChunk` for each chunk, and returns after the last. Throws ServerError, or what fetch
// throws: AbortError once `signal` is raised.
export async function streamChat(
  body: ChatBody,
  signal: AbortSignal,
  onChunk: (chunk: Chunk) => void,
): Promise<void> {
  const response = await fetch('/v1/chat/completions', {
    method: 'POST',
    headers: {'Content-Type': 'application/json', ...keyHeaders()},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
    signal,
  });
  if (!response.ok || !response.body) throw new ServerError(await refusal(response));
  for await (const data of eventData(response.body)) {
    if (data === '[DONE]') return;
    const parsed: unknown = JSON.parse(data);
    const message = errorMessage(parsed);
    if (message !== undefined) throw new ServerError(message);
    onChunk(parsed as Chunk);
  }
  signal.throwIfAborted();
  throw new ServerError('The connection ended before the answer did.');
}

async function refusal(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return errorMessage(JSON.parse(text)) ?? `The server answered ${response.status}.`;
  } catch {
    return `The server answered ${response.status}.`;
  }
}

function errorMessage(body: unknown): string | undefined {
  const error = (body as {error?: {message?: unknown}} | null)?.error;
  return error === undefined ? undefined : String(error.message ?? 'The server reports an error.');
}
