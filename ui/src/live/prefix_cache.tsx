// How prompts met the prefix cache, and why they were not found to their end.
import {count, percent} from '../format';
import type {Live, Miss} from '../server/live_client';

const reasons: Record<Miss, string> = {
  none: 'found to its end',
  new: 'nothing longer was cached',
  differs: 'cached text goes on differently',
  evicted: 'the state was evicted, its rows were there',
  branch: 'prompts part where no state was kept yet',
};

export function PrefixCache({cache}: {cache: Live['cache']}) {
  const computed = cache.prompt_tokens - cache.cached_tokens;
  const share = (tokens: number) => (cache.prompt_tokens > 0 ? tokens / cache.prompt_tokens : 0);
  const {evicted, branch, grid} = cache.replayed_tokens;
  return (
    <section class="panel prefixes" aria-labelledby="prefix-title">
      <header>
        <h2 id="prefix-title">Prefix cache</h2>
        <span>
          {count(cache.prompts)} prompts, {count(cache.prompt_tokens)} tokens
        </span>
      </header>
      <div
        class="bar"
        role="img"
        aria-label={`${count(cache.cached_tokens)} prompt tokens cached, ${count(computed)} computed`}
      >
        <div class="part hit" style={{flexGrow: share(cache.cached_tokens)}} />
        <div class="part missed" style={{flexGrow: 1 - share(cache.cached_tokens)}} />
      </div>
      <div class="ends">
        <span>
          {count(cache.cached_tokens)} cached ({percent(share(cache.cached_tokens))})
        </span>
        <span>{count(computed)} computed</span>
      </div>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Where a prompt's cached part ended</th>
              <th class="right">Prompts</th>
              <th class="right">Tokens after it</th>
            </tr>
          </thead>
          <tbody>
            {(Object.keys(reasons) as Miss[]).map((miss) => (
              <tr key={miss}>
                <td>{reasons[miss]}</td>
                <td class="right">{count(cache.misses[miss].prompts)}</td>
                <td class="right">{count(cache.misses[miss].tokens)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="note">
        Rows there but no state, computed again: {count(evicted)} tokens evicted, {count(branch)} at
        branches, {count(grid)} within a grid step of {count(cache.grid_tokens)}. The cache holds{' '}
        {count(cache.states)} states ({count(cache.locked_states)} in use); evicted so far:{' '}
        {count(cache.evicted_states)} states, {count(cache.evicted_pages)} pages.
      </p>
    </section>
  );
}
