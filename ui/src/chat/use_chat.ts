// The conversation and the answer that is being written, kept in the browser.
import {useCallback, useEffect, useRef, useState} from 'preact/hooks';
import {ServerError, streamChat, type ChatBody} from '../server/chat_client';
import {load, save} from '../storage';
import {
  emptyAnswer,
  isRunning,
  settled,
  wireMessages,
  withChunk,
  withoutAnswer,
  type AnswerTurn,
  type Turn,
} from './conversation';
import {defaultSettings, requestFields, type Settings} from './settings';

export interface Chat {
  turns: readonly Turn[];
  running: boolean;
  settings: Settings;
  change: (settings: Settings) => void;
  say: (text: string) => void;
  answerCalls: (results: {callId: string; text: string}[]) => void;
  regenerate: () => void;
  stop: () => void;
  clear: () => void;
}

export function useChat(): Chat {
  const [turns, setTurns] = useState<readonly Turn[]>(() => settled(load<Turn[]>('turns', [])));
  const [settings, setSettings] = useState<Settings>(() => ({
    ...defaultSettings,
    ...load<Partial<Settings>>('settings', {}),
  }));
  const running = useRef<AbortController>();

  const ask = useCallback(
    (asked: readonly Turn[]) => {
      running.current?.abort();
      const abort = new AbortController();
      running.current = abort;
      const body: ChatBody = {
        messages: wireMessages(asked, settings.system),
        ...requestFields(settings).fields,
      };
      save('turns', asked);
      setTurns([...asked, emptyAnswer]);
      void runAnswer(body, abort.signal, (answer) => {
        if (running.current !== abort) return; // another question, or none: this one is history
        setTurns([...asked, answer]);
        if (!isRunning([answer])) save('turns', [...asked, answer]);
      });
    },
    [settings],
  );

  // What there is of an answer when the page goes is not lost.
  const latest = useRef(turns);
  latest.current = turns;
  useEffect(() => {
    const keep = () => {
      if (isRunning(latest.current)) save('turns', latest.current);
    };
    addEventListener('pagehide', keep);
    return () => removeEventListener('pagehide', keep);
  }, []);

  return {
    turns,
    running: isRunning(turns),
    settings,
    change: (next) => {
      setSettings(next);
      save('settings', next);
    },
    say: (text) => ask([...turns, {role: 'user', text}]),
    answerCalls: (results) =>
      ask([...turns, ...results.map((result): Turn => ({role: 'tool', ...result}))]),
    regenerate: () => ask(withoutAnswer(turns)),
    stop: () => running.current?.abort(),
    clear: () => {
      running.current?.abort();
      running.current = undefined;
      setTurns([]);
      save('turns', []);
    },
  };
}

// Reports the answer as it grows, at most once a frame, and once more when it has ended.
async function runAnswer(
  body: ChatBody,
  signal: AbortSignal,
  report: (answer: AnswerTurn) => void,
): Promise<void> {
  let answer = emptyAnswer;
  let frame = 0;
  const reportSoon = () => {
    if (frame !== 0) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      report(answer);
    });
  };
  try {
    await streamChat(body, signal, (chunk) => {
      answer = withChunk(answer, chunk);
      reportSoon();
    });
    answer = {...answer, state: 'done'};
  } catch (error) {
    answer = signal.aborted
      ? {...answer, state: 'stopped'}
      : {...answer, state: 'failed', error: describe(error)};
  }
  cancelAnimationFrame(frame);
  report(answer);
}

function describe(error: unknown): string {
  if (error instanceof ServerError) return error.message;
  if (error instanceof TypeError) return 'The server cannot be reached.';
  return `The answer cannot be read: ${String(error)}`;
}
