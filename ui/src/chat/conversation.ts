// A conversation as data, and how chunks of an answer add to it. Pure functions.
import type {Chunk, Timings, Usage, WireMessage} from '../server/chat_client';

export interface ToolCall {
  id: string;
  name: string;
  arguments: string; // JSON, maybe not all of it yet
}

export interface UserTurn {
  role: 'user';
  text: string;
}

export interface ToolTurn {
  role: 'tool';
  callId: string;
  text: string;
}

export interface AnswerTurn {
  role: 'assistant';
  thinking: string;
  text: string;
  calls: ToolCall[];
  state: 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed';
  finish?: string;
  error?: string;
  usage?: Usage;
  timings?: Timings;
}

export type Turn = UserTurn | ToolTurn | AnswerTurn;

export const emptyAnswer: AnswerTurn = {
  role: 'assistant',
  thinking: '',
  text: '',
  calls: [],
  state: 'waiting',
};

export function withChunk(answer: AnswerTurn, chunk: Chunk): AnswerTurn {
  const next: AnswerTurn = {...answer, state: 'streaming'};
  if (chunk.usage) next.usage = chunk.usage;
  if (chunk.timings) next.timings = chunk.timings;
  const choice = chunk.choices[0];
  if (!choice) return next;
  next.thinking += choice.delta.reasoning_content ?? '';
  next.text += choice.delta.content ?? '';
  for (const delta of choice.delta.tool_calls ?? []) {
    const calls = [...next.calls];
    const call = calls[delta.index] ?? {id: '', name: '', arguments: ''};
    calls[delta.index] = {
      id: delta.id ?? call.id,
      name: delta.function?.name ?? call.name,
      arguments: call.arguments + (delta.function?.arguments ?? ''),
    };
    next.calls = calls;
  }
  if (choice.finish_reason !== null) next.finish = choice.finish_reason;
  return next;
}

export function isRunning(turns: readonly Turn[]): boolean {
  const last = turns.at(-1);
  return last?.role === 'assistant' && (last.state === 'waiting' || last.state === 'streaming');
}

// The calls of the last answer, if it waits for their results.
export function openCalls(turns: readonly Turn[]): readonly ToolCall[] {
  const last = turns.at(-1);
  return last?.role === 'assistant' && last.state === 'done' ? last.calls : [];
}

// Without the last answer: what to ask again.
export function withoutAnswer(turns: readonly Turn[]): Turn[] {
  return turns.at(-1)?.role === 'assistant' ? turns.slice(0, -1) : [...turns];
}

// An answer that nobody finished (the page was closed) is kept as far as it came.
export function settled(turns: readonly Turn[]): Turn[] {
  return turns.map((turn) =>
    turn.role === 'assistant' && (turn.state === 'waiting' || turn.state === 'streaming')
      ? {...turn, state: 'stopped'}
      : turn,
  );
}

// What the model is to see. Calls without a result are left out, with all that a broken-off answer
// had of them: servers refuse a call that nobody answered.
export function wireMessages(turns: readonly Turn[], system: string): WireMessage[] {
  const messages: WireMessage[] = [];
  if (system.trim() !== '') messages.push({role: 'system', content: system});
  const answered = new Set(turns.flatMap((turn) => (turn.role === 'tool' ? [turn.callId] : [])));
  for (const turn of turns) {
    if (turn.role === 'user') messages.push({role: 'user', content: turn.text});
    if (turn.role === 'tool') {
      messages.push({role: 'tool', tool_call_id: turn.callId, content: turn.text});
    }
    if (turn.role !== 'assistant') continue;
    const calls = turn.calls.filter((call) => answered.has(call.id));
    if (turn.text === '' && calls.length === 0) continue;
    messages.push({
      role: 'assistant',
      content: turn.text,
      ...(turn.thinking !== '' && {reasoning_content: turn.thinking}),
      ...(calls.length > 0 && {
        tool_calls: calls.map((call) => ({
          id: call.id,
          type: 'function' as const,
          function: {name: call.name, arguments: call.arguments},
        })),
      }),
    });
  }
  return messages;
}
