import type {RefObject} from 'preact';
import {useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';

interface Props {
  running: boolean;
  send: (text: string) => void;
  stop: () => void;
  clear: (() => void) | undefined;
  showsSettings: boolean;
  settingsButton: RefObject<HTMLButtonElement>;
  toggleSettings: () => void;
}

export function Composer(props: Props) {
  const {running, send, stop, clear, showsSettings, settingsButton, toggleSettings} = props;
  const [text, setText] = useState('');
  const area = useRef<HTMLTextAreaElement>(null);

  useEffect(() => area.current?.focus(), []);
  // As tall as the text, within the limits of the style sheet.
  useLayoutEffect(() => {
    if (!area.current) return;
    area.current.style.height = 'auto';
    area.current.style.height = `${area.current.scrollHeight + 2}px`;
  }, [text]);

  const submit = () => {
    if (running || text.trim() === '') return;
    send(text);
    setText('');
    area.current?.focus();
  };

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        ref={area}
        rows={1}
        value={text}
        placeholder="Message"
        aria-label="Message"
        aria-describedby="composer-keys"
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          // Enter sends, as does Ctrl+Enter; Shift+Enter is a new line. Not while an input method
          // composes a character.
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      <div class="buttons">
        <button
          type="button"
          class="quiet"
          ref={settingsButton}
          aria-expanded={showsSettings}
          aria-controls="settings"
          onClick={toggleSettings}
        >
          Settings
        </button>
        {clear && (
          <button type="button" class="quiet" onClick={clear}>
            New chat
          </button>
        )}
        <span class="keys" id="composer-keys">
          {running ? 'Esc stops' : 'Enter sends, Shift+Enter breaks the line'}
        </span>
        {running ? (
          <button type="button" class="main" onClick={stop}>
            Stop
          </button>
        ) : (
          <button type="submit" class="main" disabled={text.trim() === ''}>
            Send
          </button>
        )}
      </div>
    </form>
  );
}
