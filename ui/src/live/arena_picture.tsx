// The arena to scale: states from the left end, rows from the right, the gap between.
import {bytes, count} from '../format';
import type {Live} from '../server/live_client';

interface Segment {
  id: string;
  label: string;
  entries: number | undefined;
  bytes: number;
}

export function ArenaPicture({arena}: {arena: Live['arena']}) {
  const {states, pages} = arena;
  const segment = (id: string, label: string, entries: number, each: number): Segment => ({
    id,
    label,
    entries,
    bytes: entries * each,
  });
  const segments: Segment[] = [
    {id: 'sink', label: 'Sink (padding)', entries: undefined, bytes: arena.sink_bytes},
    segment('state-work', 'States of requests', states.requests, states.entry_bytes),
    segment('state-snapshot', 'Snapshots of requests', states.snapshots, states.entry_bytes),
    segment('state-cache', 'States in the cache', states.cache + states.readers, states.entry_bytes),
    segment('state-hole', 'Holes among states', states.holes, states.entry_bytes),
    {id: 'gap', label: 'Gap (free for either)', entries: undefined, bytes: arena.gap_bytes},
    segment('page-hole', 'Holes among rows', pages.holes, pages.entry_bytes),
    segment('page-cache', 'Rows in the cache, pages', pages.cache, pages.entry_bytes),
    segment('page-work', 'Rows of requests, pages', pages.requests, pages.entry_bytes),
  ];
  const described = segments.map((s) => `${s.label} ${bytes(s.bytes)}`).join(', ');
  return (
    <section class="panel arena" aria-labelledby="arena-title">
      <header>
        <h2 id="arena-title">Memory</h2>
        <span>
          {bytes(arena.bytes)}; a state {bytes(states.entry_bytes)}, a page{' '}
          {bytes(pages.entry_bytes)}
        </span>
      </header>
      <div class="bar" role="img" aria-label={`The arena: ${described}`}>
        {segments.map((s) => (
          <div
            key={s.id}
            class={`part ${s.id}`}
            title={`${s.label}: ${bytes(s.bytes)}`}
            hidden={s.bytes === 0}
            style={{flexGrow: s.bytes / arena.bytes}}
          />
        ))}
      </div>
      <div class="ends" aria-hidden="true">
        <span>states →</span>
        <span>← rows</span>
      </div>
      <ul class="legend">
        {segments.map((s) => (
          <li key={s.id}>
            <i class={s.id} aria-hidden="true" />
            <span>{s.label}</span>
            <b>{s.entries === undefined ? '' : count(s.entries)}</b>
            <em>{bytes(s.bytes)}</em>
          </li>
        ))}
      </ul>
    </section>
  );
}
