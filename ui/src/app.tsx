// The frame: pages by the address's hash, the model's name, the theme.
import {useEffect, useState} from 'preact/hooks';
import {useChat} from './chat/use_chat';
import {ChatPage} from './chat/chat_page';
import {LivePage} from './live/live_page';
import {modelName} from './server/models_client';
import {useTheme, type Theme} from './theme';

type Page = 'chat' | 'live';

const currentPage = (): Page => (location.hash === '#live' ? 'live' : 'chat');

function usePage(): Page {
  const [page, setPage] = useState(currentPage);
  useEffect(() => {
    const update = () => setPage(currentPage());
    addEventListener('hashchange', update);
    return () => removeEventListener('hashchange', update);
  }, []);
  return page;
}

export function App() {
  const page = usePage();
  const chat = useChat(); // here, so that an answer goes on while another page is looked at
  const [model, setModel] = useState('');
  useEffect(() => {
    modelName().then(setModel, () => setModel(''));
  }, []);
  useEffect(() => {
    document.title = page === 'live' ? 'Live · Tandem' : 'Tandem';
  }, [page]);
  return (
    <>
      <header class="top">
        <img src="/icon.svg" alt="" width="24" height="24" />
        <h1>Tandem</h1>
        <span class="model" title="The model that this server has">
          {model}
        </span>
        <nav aria-label="Pages">
          <a href="#chat" aria-current={page === 'chat' ? 'page' : undefined}>
            Chat
          </a>
          <a href="#live" aria-current={page === 'live' ? 'page' : undefined}>
            Live
          </a>
        </nav>
        <ThemeChoice />
      </header>
      {page === 'live' ? <LivePage /> : <ChatPage chat={chat} />}
    </>
  );
}

function ThemeChoice() {
  const [theme, setTheme] = useTheme();
  return (
    <label class="theme">
      <span class="hidden">Theme</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        <option value="system">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
