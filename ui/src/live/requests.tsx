// A line of time for each request of late.
import {useState} from 'preact/hooks';
import {count, milliseconds} from '../format';
import type {Live, LiveRequest} from '../server/live_client';
import {phases} from './timeline';

const spans = [
  {seconds: 15, label: '15 s'},
  {seconds: 60, label: '1 min'},
  {seconds: 600, label: '10 min'},
];

const finishes = {stop: 'done', length: 'at limit', cancelled: 'cancelled', error: 'failed'};

export function Requests({live}: {live: Live}) {
  const [seconds, setSeconds] = useState(15);
  const window = {from_ms: live.time_ms - seconds * 1000, to_ms: live.time_ms};
  const shown = live.requests
    .map((request) => ({request, phases: phases(request, window, live.time_ms)}))
    .filter((row) => row.phases.length > 0)
    .reverse();
  return (
    <section class="panel requests" aria-labelledby="requests-title">
      <header>
        <h2 id="requests-title">Requests</h2>
        <span class="keys" aria-hidden="true">
          <span class="key">
            <i class="queue" />
            queue
          </span>
          <span class="key">
            <i class="prefill" />
            prefill
          </span>
          <span class="key">
            <i class="decode" />
            decode
          </span>
        </span>
        <label>
          <span class="hidden">Time shown</span>
          <select
            value={seconds}
            onChange={(event) => setSeconds(Number(event.currentTarget.value))}
          >
            {spans.map((span) => (
              <option key={span.seconds} value={span.seconds}>
                last {span.label}
              </option>
            ))}
          </select>
        </label>
      </header>
      {shown.length === 0 ? (
        <p class="note">No request in this time.</p>
      ) : (
        <ol class="rows">
          {shown.map(({request, phases}) => (
            <li key={request.number}>
              <span class="number">#{request.number}</span>
              <span class="line" role="img" aria-label={times(request)} title={times(request)}>
                {phases.map((phase) => (
                  <i
                    key={phase.kind}
                    class={phase.kind}
                    style={{left: `${phase.from * 100}%`, width: `${(phase.to - phase.from) * 100}%`}}
                  />
                ))}
              </span>
              <span class="tokens">{tokens(request)}</span>
              <span class={`state ${request.finish ?? 'running'}`}>
                {request.finish === null ? 'running' : finishes[request.finish]}
              </span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function tokens(request: LiveRequest): string {
  const cached = request.cached_tokens ? ` (${count(request.cached_tokens)} cached)` : '';
  return `${count(request.prompt_tokens)}${cached} → ${count(request.answer_tokens)}`;
}

function times(request: LiveRequest): string {
  if (request.finish === null) return 'still running';
  return (
    `queue ${milliseconds(request.queue_ms ?? 0)}, prefill ${milliseconds(request.prefill_ms ?? 0)}, ` +
    `decode ${milliseconds(request.decode_ms ?? 0)}`
  );
}
