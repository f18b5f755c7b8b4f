// What the charts show: rates out of the server's counters, sample by sample. Pure functions.
import type {Live} from '../server/live_client';

export interface Sample {
  time_s: number; // since the server started
  decodePerSecond: number;
  prefillPerSecond: number;
  running: number;
  queued: number;
}

export interface History {
  last: Live | undefined;
  samples: readonly Sample[];
}

export const emptyHistory: History = {last: undefined, samples: []};
export const shownSeconds = 120;

// The first answer only begins the counting. A server that was started anew begins again.
export function withLive(history: History, live: Live): History {
  const {last} = history;
  if (!last || live.time_ms < last.time_ms) return {last: live, samples: []};
  const seconds = (live.time_ms - last.time_ms) / 1000;
  if (seconds <= 0) return history;
  const rate = (key: 'decode_tokens' | 'prefill_tokens') =>
    Math.max(0, live.counters[key] - last.counters[key]) / seconds;
  const sample: Sample = {
    time_s: live.time_ms / 1000,
    decodePerSecond: rate('decode_tokens'),
    prefillPerSecond: rate('prefill_tokens'),
    running: live.running,
    queued: live.queued,
  };
  const oldest = sample.time_s - shownSeconds - 5;
  return {last: live, samples: [...history.samples.filter((s) => s.time_s >= oldest), sample]};
}
