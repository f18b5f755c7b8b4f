import {useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';
import {AnswerView} from './answer_view';
import {Composer} from './composer';
import {openCalls, type Turn} from './conversation';
import {SettingsPanel} from './settings_panel';
import {ToolResults} from './tool_results';
import type {Chat} from './use_chat';

const suggestions = ['What is 4738 + 2965?', 'What is the capital of Japan?', 'Tell me a short story.'];

export function ChatPage({chat}: {chat: Chat}) {
  const [showsSettings, setShowsSettings] = useState(false);
  const settingsButton = useRef<HTMLButtonElement>(null);
  const {turns, running} = chat;
  const calls = openCalls(turns);

  // Escape stops the answer, wherever the focus is.
  useEffect(() => {
    if (!running) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.key === 'Escape') chat.stop();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });

  return (
    <main class="chat">
      <section class="talk" aria-label="Conversation">
        <Scroller turns={turns}>
          {turns.length === 0 ? (
            <Welcome say={chat.say} />
          ) : (
            <ol class="turns">
              {turns.map((turn, index) => (
                <li key={index} class={turn.role}>
                  <TurnView
                    turn={turn}
                    regenerate={
                      index === turns.length - 1 && !running ? chat.regenerate : undefined
                    }
                  />
                </li>
              ))}
            </ol>
          )}
        </Scroller>
        <div class="foot">
          {calls.length > 0 && <ToolResults calls={calls} send={chat.answerCalls} />}
          <Composer
            running={running}
            send={chat.say}
            stop={chat.stop}
            clear={turns.length > 0 ? chat.clear : undefined}
            showsSettings={showsSettings}
            settingsButton={settingsButton}
            toggleSettings={() => setShowsSettings(!showsSettings)}
          />
        </div>
      </section>
      {showsSettings && (
        <SettingsPanel
          settings={chat.settings}
          change={chat.change}
          close={() => {
            setShowsSettings(false);
            settingsButton.current?.focus();
          }}
        />
      )}
    </main>
  );
}

function Welcome({say}: {say: (text: string) => void}) {
  return (
    <div class="welcome">
      <h2>Ask the model</h2>
      <ul>
        {suggestions.map((text) => (
          <li key={text}>
            <button type="button" onClick={() => say(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

function TurnView({turn, regenerate}: {turn: Turn; regenerate: (() => void) | undefined}) {
  switch (turn.role) {
    case 'user':
      return <div class="bubble">{turn.text}</div>;
    case 'tool':
      return (
        <div class="result">
          <span class="tag">Result of {turn.callId}</span>
          <pre tabIndex={0}>{turn.text}</pre>
        </div>
      );
    case 'assistant':
      return <AnswerView answer={turn} regenerate={regenerate} />;
  }
}

// Follows the end of the conversation as long as the reader is there.
function Scroller({turns, children}: {turns: readonly Turn[]; children: preact.ComponentChildren}) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const count = useRef(turns.length);
  useLayoutEffect(() => {
    if (turns.length !== count.current) follows.current = true; // something was asked
    count.current = turns.length;
    if (box.current && follows.current) box.current.scrollTop = box.current.scrollHeight;
  }, [turns]);
  return (
    <div
      class="scroller"
      ref={box}
      tabIndex={0}
      onScroll={({currentTarget: {scrollHeight, scrollTop, clientHeight}}) => {
        follows.current = scrollHeight - scrollTop - clientHeight < 40;
      }}
    >
      {children}
    </div>
  );
}
