import {describe, expect, it} from 'vitest';
import type {LiveRequest} from '../server/live_client';
import {phases} from './timeline';

const request = (fields: Partial<LiveRequest>): LiveRequest => ({
  number: 1,
  prompt_tokens: 1,
  answer_tokens: 1,
  submitted_ms: 0,
  first_token_ms: null,
  finish: null,
  ...fields,
});
const window = {from_ms: 0, to_ms: 100};

describe('phases', () => {
  it('of a request that ended', () => {
    const ended = request({
      submitted_ms: 10,
      first_token_ms: 40,
      finish: 'stop',
      queue_ms: 10,
      prefill_ms: 20,
      decode_ms: 50,
    });
    expect(phases(ended, window, 100)).toEqual([
      {kind: 'queue', from: 0.1, to: 0.2},
      {kind: 'prefill', from: 0.2, to: 0.4},
      {kind: 'decode', from: 0.4, to: 0.9},
    ]);
  });

  it('of requests that run', () => {
    expect(phases(request({submitted_ms: 50}), window, 100)).toEqual([
      {kind: 'prefill', from: 0.5, to: 1},
    ]);
    expect(phases(request({submitted_ms: 50, first_token_ms: 70}), window, 100)).toEqual([
      {kind: 'prefill', from: 0.5, to: 0.7},
      {kind: 'decode', from: 0.7, to: 1},
    ]);
  });

  it('cuts to the window and leaves out what lies before it', () => {
    const ended = request({first_token_ms: 10, finish: 'stop', queue_ms: 0, prefill_ms: 10, decode_ms: 50});
    expect(phases(ended, {from_ms: 20, to_ms: 120}, 120)).toEqual([
      {kind: 'decode', from: 0, to: 0.4},
    ]);
    expect(phases(ended, {from_ms: 60, to_ms: 160}, 160)).toEqual([]);
  });

  it('of a request cancelled in the queue', () => {
    const cancelled = request({submitted_ms: 10, finish: 'cancelled', queue_ms: 0, prefill_ms: 0, decode_ms: 0});
    expect(phases(cancelled, window, 100)).toEqual([]);
  });
});
