import {render} from 'preact';
import 'uplot/dist/uPlot.min.css';
import {App} from './app';
import './styles/base.css';
import './styles/chat.css';
import './styles/live.css';
import {applyTheme, storedTheme} from './theme';

applyTheme(storedTheme());
const root = document.getElementById('app');
if (root) render(<App />, root);
