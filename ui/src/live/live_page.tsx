// What the server is doing, for who runs it.
import {useEffect, useState} from 'preact/hooks';
import {count, percent, short} from '../format';
import {fetchLive, LiveError, type Live} from '../server/live_client';
import {ArenaPicture} from './arena_picture';
import {Chart} from './chart';
import {emptyHistory, shownSeconds, withLive, type History, type Sample} from './history';
import {PrefixCache} from './prefix_cache';
import {Requests} from './requests';

const pollMs = 1000;

// Asks every second while the page can be seen. `problem` says why the last answer is an old one.
function useLive(): {history: History; problem: string} {
  const [history, setHistory] = useState(emptyHistory);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const ask = async () => {
      if (!document.hidden) {
        try {
          const live = await fetchLive(abort.signal);
          setHistory((before) => withLive(before, live));
          setProblem('');
        } catch (error) {
          if (abort.signal.aborted) return;
          setProblem(error instanceof LiveError ? error.message : 'The server cannot be reached.');
        }
      }
      timer = window.setTimeout(() => void ask(), pollMs);
    };
    void ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, []);
  return {history, problem};
}

export function LivePage() {
  const {history, problem} = useLive();
  const live = history.last;
  return (
    <main class="live">
      {problem !== '' && (
        <p class="error" role="alert">
          {problem} Trying again every second.
        </p>
      )}
      <div class={problem === '' ? 'panels' : 'panels stale'}>
        <Tiles live={live} sample={history.samples.at(-1)} />
        <Charts samples={history.samples} />
        {live && <ArenaPicture arena={live.arena} />}
        {live && <PrefixCache cache={live.cache} />}
        {live && <Requests live={live} />}
      </div>
    </main>
  );
}

function Tiles({live, sample}: {live: Live | undefined; sample: Sample | undefined}) {
  const hitRate =
    live && live.cache.prompt_tokens > 0
      ? percent(live.cache.cached_tokens / live.cache.prompt_tokens)
      : undefined;
  const tiles: [string, string, string | undefined][] = [
    ['decode', 'Decode, tokens/s', sample && short(sample.decodePerSecond)],
    ['prefill', 'Prefill, tokens/s', sample && short(sample.prefillPerSecond)],
    ['running', 'Running', live && count(live.running)],
    ['queued', 'Waiting', live && count(live.queued)],
    ['hit-rate', 'Prompt tokens cached', hitRate],
    ['retractions', 'Retractions', live && count(live.counters.retractions)],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([id, label, value]) => (
        <div key={id} data-tile={id}>
          <dt>{label}</dt>
          <dd>{value ?? '–'}</dd>
        </div>
      ))}
    </dl>
  );
}

function Charts({samples}: {samples: readonly Sample[]}) {
  const times = samples.map((sample) => sample.time_s);
  return (
    <div class="charts">
      <Chart
        title="Decode, tokens/s"
        times={times}
        seconds={shownSeconds}
        series={[
          {label: 'decode', colour: '--rows-1', values: samples.map((s) => s.decodePerSecond)},
        ]}
      />
      <Chart
        title="Prefill, tokens/s"
        times={times}
        seconds={shownSeconds}
        series={[
          {label: 'prefill', colour: '--states-1', values: samples.map((s) => s.prefillPerSecond)},
        ]}
      />
      <Chart
        title="Requests"
        times={times}
        seconds={shownSeconds}
        series={[
          {label: 'running', colour: '--rows-1', values: samples.map((s) => s.running)},
          {label: 'waiting', colour: '--wait', values: samples.map((s) => s.queued)},
        ]}
      />
    </div>
  );
}
