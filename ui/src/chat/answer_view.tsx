// One answer: thinking (folded), content, tool calls, and what it took.
import {CopyButton} from '../copy_button';
import {count, milliseconds} from '../format';
import {Markdown} from '../markdown/markdown';
import type {AnswerTurn, ToolCall} from './conversation';

interface Props {
  answer: AnswerTurn;
  regenerate: (() => void) | undefined;
}

export function AnswerView({answer, regenerate}: Props) {
  const running = answer.state === 'waiting' || answer.state === 'streaming';
  const thinks = running && answer.text === '' && answer.calls.length === 0;
  return (
    <article class="answer" aria-busy={running}>
      {answer.thinking !== '' && (
        <details class="thinking">
          <summary>{thinks ? <Busy text="Thinking" /> : 'Thinking'}</summary>
          <div class="thought">{answer.thinking}</div>
        </details>
      )}
      {answer.thinking === '' && thinks && <Busy text="Waiting" />}
      {answer.text !== '' && <Markdown text={answer.text} />}
      {answer.calls.map((call, index) => (
        <CallView key={index} call={call} />
      ))}
      {answer.error !== undefined && (
        <p class="error" role="alert">
          {answer.error}
        </p>
      )}
      {!running && (
        <footer>
          <span class="facts">{facts(answer).join(' · ')}</span>
          <span class="actions">
            {answer.text !== '' && <CopyButton text={answer.text} label="Copy answer" />}
            {regenerate && (
              <button type="button" class="quiet" onClick={regenerate}>
                {answer.state === 'failed' ? 'Try again' : 'Regenerate'}
              </button>
            )}
          </span>
        </footer>
      )}
    </article>
  );
}

function Busy({text}: {text: string}) {
  return (
    <span class="busy" role="status">
      {text}
      <span class="dots" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
    </span>
  );
}

function CallView({call}: {call: ToolCall}) {
  return (
    <section class="call" aria-label={`Call of ${call.name}`}>
      <header>
        <span class="tag">Tool call</span>
        <code>{call.name}</code>
      </header>
      <pre tabIndex={0}>{pretty(call.arguments)}</pre>
    </section>
  );
}

// Indented, unless it is not whole yet.
function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

const endings: Record<string, string> = {
  length: 'cut at the token limit',
  abort: 'ended by the server',
};

function facts(answer: AnswerTurn): string[] {
  const list: string[] = [];
  if (answer.state === 'stopped') list.push('stopped');
  const ending = endings[answer.finish ?? ''];
  if (ending) list.push(ending);
  const {usage, timings} = answer;
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    list.push(`prompt ${count(usage.prompt_tokens)} (${count(cached)} cached)`);
    list.push(`answer ${count(usage.completion_tokens)} tokens`);
  }
  if (timings) {
    list.push(`first token ${milliseconds(timings.queue_ms + timings.prefill_ms)}`);
    list.push(`${count(Math.round(timings.decode_tokens_per_s))} tokens/s`);
  }
  return list;
}
