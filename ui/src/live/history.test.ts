import {describe, expect, it} from 'vitest';
import type {Live} from '../server/live_client';
import {emptyHistory, shownSeconds, withLive} from './history';

const live = (time_ms: number, decode_tokens: number, more: Partial<Live> = {}): Live =>
  ({time_ms, counters: {decode_tokens, prefill_tokens: 0}, running: 0, queued: 0, ...more}) as Live;

describe('withLive', () => {
  it('makes rates of counters', () => {
    let history = withLive(emptyHistory, live(1000, 50));
    expect(history.samples).toEqual([]);
    history = withLive(history, live(3000, 150, {running: 2, queued: 1}));
    expect(history.samples).toEqual([
      {time_s: 3, decodePerSecond: 50, prefillPerSecond: 0, running: 2, queued: 1},
    ]);
  });

  it('begins again with a server that was started anew', () => {
    let history = withLive(withLive(emptyHistory, live(1000, 0)), live(9000, 500));
    history = withLive(history, live(500, 3));
    expect(history.samples).toEqual([]);
    expect(withLive(history, live(1500, 4)).samples[0]?.decodePerSecond).toBe(1);
  });

  it('takes the same answer once', () => {
    const history = withLive(withLive(emptyHistory, live(1000, 0)), live(2000, 5));
    expect(withLive(history, live(2000, 5))).toBe(history);
  });

  it('forgets what the charts no longer show', () => {
    let history = emptyHistory;
    for (let second = 0; second < 3 * shownSeconds; second += 1) {
      history = withLive(history, live(second * 1000, second));
    }
    expect(history.samples.length).toBeLessThan(shownSeconds + 10);
    expect(history.samples.length).toBeGreaterThan(shownSeconds);
  });
});
