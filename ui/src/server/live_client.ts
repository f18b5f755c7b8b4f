// GET /live, as docs/console.md describes it.
import {keyHeaders} from './api_key';

export interface LiveRequest {
  number: number;
  prompt_tokens: number;
  answer_tokens: number;
  submitted_ms: number;
  first_token_ms: number | null;
  finish: 'stop' | 'length' | 'cancelled' | 'error' | null;
  queue_ms?: number;
  prefill_ms?: number;
  decode_ms?: number;
  cached_tokens?: number;
  reprocessed_tokens?: number;
  miss?: Miss;
}

export type Miss = 'none' | 'new' | 'differs' | 'evicted' | 'branch';

export interface Live {
  time_ms: number; // since the server started, as all times
  model: string;
  running: number;
  queued: number;
  counters: {
    steps: number;
    prefill_tokens: number;
    decode_tokens: number;
    retractions: number;
    reprocessed_tokens: number;
    waits_for_prefix: number;
  };
  arena: {
    bytes: number;
    sink_bytes: number;
    gap_bytes: number;
    states: {
      entry_bytes: number;
      requests: number;
      snapshots: number;
      cache: number;
      readers: number;
      holes: number;
    };
    pages: {entry_bytes: number; requests: number; cache: number; holes: number};
    moves: number;
  };
  cache: {
    grid_tokens: number;
    states: number;
    locked_states: number;
    evicted_states: number;
    evicted_pages: number;
    prompts: number;
    prompt_tokens: number;
    cached_tokens: number;
    misses: Record<Miss, {prompts: number; tokens: number}>;
    replayed_tokens: {evicted: number; branch: number; grid: number};
  };
  requests: LiveRequest[];
}

// What the server says instead of its figures.
export class LiveError extends Error {}

export async function fetchLive(signal: AbortSignal): Promise<Live> {
  const response = await fetch('/live', {signal, headers: keyHeaders()});
  if (response.status === 401) throw new LiveError('The server asks for an API key: Chat, Settings.');
  if (!response.ok) throw new LiveError(`The server answered ${response.status}.`);
  return (await response.json()) as Live;
}
