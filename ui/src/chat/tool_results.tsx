// The reader plays the tool: what a call returns is typed here and sent back to the model.
import {useState} from 'preact/hooks';
import type {ToolCall} from './conversation';

interface Props {
  calls: readonly ToolCall[];
  send: (results: {callId: string; text: string}[]) => void;
}

export function ToolResults({calls, send}: Props) {
  const [texts, setTexts] = useState<Record<string, string>>({});
  return (
    <form
      class="results"
      onSubmit={(event) => {
        event.preventDefault();
        send(calls.map((call) => ({callId: call.id, text: texts[call.id] ?? ''})));
      }}
    >
      {calls.map((call) => (
        <label key={call.id}>
          <span>
            Result of <code>{call.name}</code>
          </span>
          <input
            value={texts[call.id] ?? ''}
            placeholder='{"ok": true}'
            onInput={(event) => setTexts({...texts, [call.id]: event.currentTarget.value})}
          />
        </label>
      ))}
      <button type="submit">Send result{calls.length > 1 ? 's' : ''}</button>
    </form>
  );
}
