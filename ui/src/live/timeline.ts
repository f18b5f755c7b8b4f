// Where a request's phases lie in a window of time. Pure functions.
import type {LiveRequest} from '../server/live_client';

export type PhaseKind = 'queue' | 'prefill' | 'decode';

export interface Phase {
  kind: PhaseKind;
  from: number; // share of the window, 0 to 1
  to: number;
}

// In order, cut to the window; empty if the request lies outside. While a request waits for its
// first token, the server does not say which part of that was queueing: all counts as prefill.
export function phases(
  request: LiveRequest,
  window: {from_ms: number; to_ms: number},
  now_ms: number,
): Phase[] {
  const {submitted_ms: begin, first_token_ms: first} = request;
  const ended = request.finish !== null;
  const admitted = begin + (request.queue_ms ?? 0);
  const computed = first ?? (ended ? admitted + (request.prefill_ms ?? 0) : now_ms);
  const end = ended ? computed + (request.decode_ms ?? 0) : now_ms;
  const share = (ms: number) =>
    Math.min(1, Math.max(0, (ms - window.from_ms) / (window.to_ms - window.from_ms)));
  const spans: [PhaseKind, number, number][] = [
    ['queue', begin, Math.min(admitted, computed)],
    ['prefill', Math.min(admitted, computed), computed],
    ['decode', computed, end],
  ];
  return spans
    .map(([kind, from, to]) => ({kind, from: share(from), to: share(to)}))
    .filter(({from, to}) => to > from);
}
