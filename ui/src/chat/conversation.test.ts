import {describe, expect, it} from 'vitest';
import type {Chunk} from '../server/chat_client';
import {
  emptyAnswer,
  openCalls,
  settled,
  wireMessages,
  withChunk,
  withoutAnswer,
  type AnswerTurn,
  type Turn,
} from './conversation';

type Delta = Chunk['choices'][number]['delta'];
const chunk = (delta: Delta, finish: string | null = null): Chunk => ({
  choices: [{delta, finish_reason: finish}],
});
const answer = (...chunks: Chunk[]): AnswerTurn => chunks.reduce(withChunk, emptyAnswer);

describe('withChunk', () => {
  it('joins thinking, text, calls and the end', () => {
    const joined = answer(
      chunk({reasoning_content: 'th'}),
      chunk({reasoning_content: 'ink'}),
      chunk({content: 'a'}),
      chunk({content: 'b'}),
      chunk({tool_calls: [{index: 0, id: 'x:0', function: {name: 'f', arguments: ''}}]}),
      chunk({tool_calls: [{index: 0, function: {arguments: '{"a"'}}]}),
      chunk({tool_calls: [{index: 1, id: 'y:1', function: {name: 'g', arguments: '{}'}}]}),
      chunk({tool_calls: [{index: 0, function: {arguments: ':1}'}}]}),
      chunk({}, 'tool_calls'),
      {choices: [], usage: {prompt_tokens: 3, completion_tokens: 4}},
    );
    expect(joined.thinking).toBe('think');
    expect(joined.text).toBe('ab');
    expect(joined.calls).toEqual([
      {id: 'x:0', name: 'f', arguments: '{"a":1}'},
      {id: 'y:1', name: 'g', arguments: '{}'},
    ]);
    expect(joined.finish).toBe('tool_calls');
    expect(joined.usage?.completion_tokens).toBe(4);
  });

  it('changes no answer in place', () => {
    const before = answer(chunk({tool_calls: [{index: 0, id: 'a', function: {name: 'f', arguments: ''}}]}));
    const copy = structuredClone(before);
    withChunk(before, chunk({content: 'x', tool_calls: [{index: 0, function: {arguments: '{'}}]}));
    expect(before).toEqual(copy);
  });
});

describe('wireMessages', () => {
  const call = {id: 'f:0', name: 'f', arguments: '{}'};
  const called: AnswerTurn = {...emptyAnswer, thinking: 't', calls: [call], state: 'done'};

  it('puts the system prompt first, unless it is blank', () => {
    const turns: Turn[] = [{role: 'user', text: 'hi'}];
    expect(wireMessages(turns, 'be brief').map((m) => m.role)).toEqual(['system', 'user']);
    expect(wireMessages(turns, ' \n').map((m) => m.role)).toEqual(['user']);
  });

  it('sends calls with their results', () => {
    const turns: Turn[] = [{role: 'user', text: 'q'}, called, {role: 'tool', callId: 'f:0', text: '7'}];
    expect(wireMessages(turns, '')).toEqual([
      {role: 'user', content: 'q'},
      {
        role: 'assistant',
        content: '',
        reasoning_content: 't',
        tool_calls: [{id: 'f:0', type: 'function', function: {name: 'f', arguments: '{}'}}],
      },
      {role: 'tool', tool_call_id: 'f:0', content: '7'},
    ]);
  });

  it('leaves out calls that nobody answered and answers without text', () => {
    const turns: Turn[] = [
      {role: 'user', text: 'q'},
      called,
      {role: 'user', text: 'never mind'},
      {...emptyAnswer, state: 'failed', error: 'x'},
      {role: 'user', text: 'again'},
    ];
    expect(wireMessages(turns, '').map((m) => m.content)).toEqual(['q', 'never mind', 'again']);
  });
});

it('openCalls are those of a finished last answer', () => {
  const done: AnswerTurn = {...emptyAnswer, calls: [{id: 'a', name: 'f', arguments: '{}'}], state: 'done'};
  expect(openCalls([done])).toHaveLength(1);
  expect(openCalls([{...done, state: 'stopped'}])).toHaveLength(0);
  expect(openCalls([done, {role: 'user', text: 'x'}])).toHaveLength(0);
});

it('withoutAnswer takes back the last answer only', () => {
  const user: Turn = {role: 'user', text: 'q'};
  expect(withoutAnswer([user, emptyAnswer])).toEqual([user]);
  expect(withoutAnswer([user])).toEqual([user]);
});

it('settled ends answers that were running', () => {
  const [kept, ended] = settled([{role: 'user', text: 'q'}, {...emptyAnswer, state: 'streaming'}]);
  expect(kept).toEqual({role: 'user', text: 'q'});
  expect((ended as AnswerTurn).state).toBe('stopped');
});
