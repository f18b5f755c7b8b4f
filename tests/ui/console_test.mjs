// The console in a real browser, against a real server with the bundled model.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {answers, answerWith, lastAnswer, openPage, picture, send, startBrowser, startServer} from './harness.mjs';

const sum = 'What is 4738 + 2965?';
const story = 'Tell me a short story.';
const timer = '{"name": "set_timer", "description": "Start a timer.", "parameters": {"type": "object", ' +
  '"properties": {"minutes": {"type": "number"}}, "required": ["minutes"]}}';

let server;
let browser;
before(async () => {
  server = await startServer();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  server?.stop();
});

async function setField(page, label, value) {
  await page.getByRole('textbox', {name: label}).fill(value);
}

async function greedy(page) {
  await page.getByRole('button', {name: 'Settings'}).click();
  await setField(page, 'Temperature', '0');
  await page.getByRole('button', {name: 'Close'}).click();
}

test('a message is sent with Enter and answered', async () => {
  const {page, close} = await openPage(browser, server);
  await greedy(page);
  await send(page, sum);
  const answer = await lastAnswer(page);
  assert.match(await answer.locator('.markdown').innerText(), /7703/);
  assert.match(await answer.locator('.facts').innerText(), /prompt \d+ \(\d+ cached\) · answer \d+ tokens · first token .* tokens\/s/);
  // Thinking is folded, and opens from the keyboard.
  const thinking = answer.locator('details.thinking');
  assert.equal(await thinking.evaluate((element) => element.open), false);
  await thinking.locator('summary').press('Enter');
  assert.match(await thinking.locator('.thought').innerText(), /carry/);
  await close();
});

test('the conversation outlives a reload, until a new one begins', async () => {
  const {page, close} = await openPage(browser, server);
  await greedy(page);
  await send(page, sum);
  const text = await (await lastAnswer(page)).locator('.markdown').innerText();
  await page.reload();
  assert.equal(await (await lastAnswer(page)).locator('.markdown').innerText(), text);
  await page.getByRole('button', {name: 'New chat'}).click();
  assert.equal(await answers(page).count(), 0);
  await page.reload();
  await page.getByRole('heading', {name: 'Ask the model'}).waitFor();
  await close();
});

// What was said is ever likelier to be said again: an answer that is there to be seen growing, and stopped.
const endless = 'Repeat the word cat 5 times.';
// Without the tokens of the chat format (the last of the vocabulary) an answer cannot end.
const noMarkup = Object.fromEntries(Array.from({length: 32}, (_, i) => [4064 + i, -100]));
const neverEnding = (route) =>
  route.continue({postData: JSON.stringify({...route.request().postDataJSON(), logit_bias: noMarkup})});

test('an answer streams; Escape stops it, which the server lets go; it can be asked for again', async () => {
  const {page, close} = await openPage(browser, server);
  await greedy(page);
  await page.route('**/v1/chat/completions', neverEnding);
  await send(page, endless);
  await page.waitForFunction(() => {
    window.lengths ??= new Set();
    return window.lengths.add(document.querySelector('article.answer')?.textContent.length).size > 5;
  });
  await page.keyboard.press('Escape');
  const answer = await lastAnswer(page);
  assert.match(await answer.locator('.facts').innerText(), /^stopped/);
  await page.waitForFunction(async () => (await (await fetch('/live')).json()).running === 0);
  await page.unroute('**/v1/chat/completions');
  await answer.getByRole('button', {name: 'Regenerate'}).click();
  await page.waitForFunction(() => /first token/.test(document.querySelector('.facts')?.textContent ?? ''));
  assert.equal(await answers(page).count(), 1);
  await close();
});

test('what is set is sent, and what is wrong is said', async () => {
  const {page, close} = await openPage(browser, server);
  await page.getByRole('button', {name: 'Settings'}).click();
  await setField(page, 'System prompt', 'Be brief.');
  await setField(page, 'Temperature', '0.5');
  await setField(page, 'Top p', '7');
  await setField(page, 'Max tokens', '9');
  await setField(page, 'Seed', '42');
  await page.getByRole('combobox', {name: 'Thinking effort'}).selectOption('low');
  assert.equal(await page.getByRole('textbox', {name: 'Top p'}).getAttribute('aria-invalid'), 'true');
  await page.getByRole('button', {name: 'Close'}).click();
  const request = page.waitForRequest('**/v1/chat/completions');
  await send(page, story);
  const body = (await request).postDataJSON();
  assert.deepEqual(body, {
    messages: [{role: 'system', content: 'Be brief.'}, {role: 'user', content: story}],
    temperature: 0.5,
    max_completion_tokens: 9,
    seed: 42,
    reasoning_effort: 'low',
    stream: true,
    stream_options: {include_usage: true},
  });
  const answer = await lastAnswer(page);
  assert.match(await answer.locator('.facts').innerText(), /cut at the token limit.*answer 9 tokens/);
  await close();
});

test('tool calls are shown, and their results are sent back', async () => {
  const {page, close} = await openPage(browser, server);
  await greedy(page);
  await page.getByRole('button', {name: 'Settings'}).click();
  await setField(page, 'Tools (JSON)', timer);
  await page.getByRole('button', {name: 'Close'}).click();
  await send(page, 'Set a timer for 5 minutes.');
  const call = (await lastAnswer(page)).locator('.call');
  assert.match(await call.locator('header').innerText(), /set_timer/);
  assert.deepEqual(JSON.parse(await call.locator('pre').innerText()), {minutes: 5});
  await page.getByRole('textbox', {name: 'Result of set_timer'}).fill('{"ok": true}');
  await picture(page, 'tool-call');
  await page.getByRole('button', {name: 'Send result'}).click();
  await page.waitForFunction(() => document.querySelectorAll('article.answer footer').length === 2);
  assert.notEqual(await answers(page).last().locator('.markdown').innerText(), '');
  await close();
});

test('an answer cannot bring markup, scripts or pictures into the page', async () => {
  const {page, close} = await openPage(browser, server);
  const hostile =
    '<img src="http://203.0.113.1/x.png" onerror="alert(1)"><script>alert(2)</script>\n\n' +
    '[a](javascript:alert(3)) ![b](http://203.0.113.1/b.png) [c](https://203.0.113.1/c)\n\n' +
    '```html"><script>alert(4)</script>\n<b>bold</b>\n```\n';
  await answerWith(page, [{reasoning_content: hostile}, {content: hostile}]);
  await send(page, 'x');
  const answer = await lastAnswer(page);
  assert.equal(await answer.locator('img, script, iframe, b').count(), 0);
  const links = await answer.locator('a').evaluateAll((list) => list.map((a) => [a.href, a.rel]));
  assert.deepEqual(links.map(([href]) => href), [
    'http://203.0.113.1/x.png', // as text
    'http://203.0.113.1/b.png',
    'https://203.0.113.1/c',
  ]);
  assert.ok(links.every(([, rel]) => rel.includes('noopener')));
  assert.match(await answer.innerText(), /<img src=/);
  await close();
});

test('errors are shown: refusals, errors in a stream, a server that is gone', async () => {
  const {page, close} = await openPage(browser, server);
  const cases = [
    [{status: 429, json: {error: {message: 'the queue is full'}}}, 'the queue is full'],
    [{contentType: 'text/event-stream', body: 'data: {"error":{"message":"no memory"}}\n\ndata: [DONE]\n\n'}, 'no memory'],
    [{contentType: 'text/event-stream', body: 'data: {"choices":[]}\n\n'}, 'The connection ended before the answer did.'],
    [{status: 502, body: '<html>'}, 'The server answered 502.'],
  ];
  for (const [response, message] of cases) {
    await page.route('**/v1/chat/completions', (route) => route.fulfill(response));
    await send(page, 'x');
    assert.equal(await (await lastAnswer(page)).getByRole('alert').innerText(), message);
    await page.unroute('**/v1/chat/completions');
  }
  await page.route('**/v1/chat/completions', (route) => route.abort());
  await (await lastAnswer(page)).getByRole('button', {name: 'Try again'}).click();
  await page.getByText('The server cannot be reached.').waitFor();
  await close();
});

test('a server with keys is used with the key that is set', async () => {
  const keyed = await startServer(['--api-key', 'open sesame']);
  try {
    const {page, close} = await openPage(browser, keyed);
    await send(page, sum);
    await page.getByText('an API key is needed').waitFor();
    await page.getByRole('link', {name: 'Live'}).click();
    await page.getByText('asks for an API key').waitFor();
    await page.getByRole('link', {name: 'Chat'}).click();
    await page.getByRole('button', {name: 'Settings'}).click();
    await page.getByLabel('API key').fill('open sesame');
    await page.getByRole('button', {name: 'Close'}).click();
    await page.getByRole('button', {name: 'New chat'}).click();
    await greedy(page);
    await send(page, sum);
    assert.match(await (await lastAnswer(page)).locator('.markdown').innerText(), /7703/);
    await page.getByRole('link', {name: 'Live'}).click();
    await page.getByText('Prefix cache').waitFor();
    await close();
  } finally {
    keyed.stop();
  }
});

test('the keyboard alone is enough', async () => {
  const {page, close} = await openPage(browser, server);
  const focused = () => page.evaluate(() => document.activeElement.textContent || document.activeElement.ariaLabel);
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), 'Message');
  await page.keyboard.type('line 1');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('line 2');
  assert.equal(await page.getByRole('textbox', {name: 'Message', exact: true}).inputValue(), 'line 1\nline 2');
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Settings');
  await page.keyboard.press('Enter');
  await page.getByRole('complementary', {name: 'Settings'}).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA');
  await page.keyboard.press('Escape');
  await page.getByRole('complementary', {name: 'Settings'}).waitFor({state: 'detached'});
  assert.equal(await focused(), 'Settings');
  await page.getByRole('textbox', {name: 'Message', exact: true}).press('Control+Enter');
  await lastAnswer(page);
  await close();
});

test('the live page moves with the load', async () => {
  const {page, close} = await openPage(browser, server, '/#live');
  const tile = (name) => page.locator(`[data-tile="${name}"] dd`);
  await page.waitForFunction(() => /\d/.test(document.querySelector('[data-tile="decode"] dd')?.textContent ?? ''));
  const arena = () => page.locator('.arena .bar').getAttribute('aria-label');
  const before = await arena();
  const stopLoad = startLoad(6);
  await page.waitForFunction(() => Number(document.querySelector('[data-tile="running"] dd').textContent) >= 2);
  await page.waitForFunction(() => parseFloat(document.querySelector('[data-tile="decode"] dd').textContent) > 0);
  await page.locator('.rows .state.running').first().waitFor();
  assert.notEqual(await arena(), before);
  await stopLoad();
  await page.waitForFunction(() => document.querySelector('[data-tile="running"] dd').textContent === '0');
  assert.ok((await page.locator('.rows li').count()) >= 6);
  assert.match(await tile('hit-rate').innerText(), /\d+ %/);
  assert.match(await page.locator('.prefixes header').innerText(), /\d+ prompts/);
  await close();
});

test('the live page says when the server cannot be reached, and goes on when it can', async () => {
  const {page, close} = await openPage(browser, server, '/#live');
  await page.locator('.arena').waitFor();
  await page.route('**/live', (route) => route.abort());
  await page.getByRole('alert').waitFor();
  await page.unroute('**/live');
  await page.getByRole('alert').waitFor({state: 'detached'});
  await close();
});

for (const [size, viewport] of [['desktop', {width: 1280, height: 800}], ['phone', {width: 390, height: 844}]]) {
  for (const theme of ['light', 'dark']) {
    test(`pages fit a ${size} in ${theme} colours`, async () => {
      const options = {viewport, colorScheme: theme};
      const {page, close} = await openPage(browser, server, '/', options);
      await picture(page, `welcome-${size}-${theme}`);
      await page.evaluate((text) => localStorage.setItem('tandem.turns', text), JSON.stringify(sample));
      await page.reload();
      await lastAnswer(page);
      await assertFits(page);
      await picture(page, `chat-${size}-${theme}`);
      await page.getByRole('button', {name: 'Settings'}).click();
      await assertFits(page);
      await picture(page, `settings-${size}-${theme}`);
      await page.getByRole('button', {name: 'Close'}).click();
      await page.getByRole('link', {name: 'Live'}).click();
      // Under load, and long enough for the charts to have a line.
      const stopLoad = startLoad(10);
      await page.locator('.rows .state.running').first().waitFor();
      await assertFits(page);
      await page.waitForTimeout(6000);
      await picture(page, `live-${size}-${theme}`);
      await page.locator('.requests').scrollIntoViewIfNeeded();
      await page.locator('main').evaluate((main) => main.scrollTo(0, main.scrollHeight));
      await picture(page, `live-end-${size}-${theme}`);
      const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(Number(/\d+/.exec(back)[0]) < 128, theme === 'dark');
      // The other theme by choice, kept over a reload.
      await page.getByRole('combobox', {name: 'Theme'}).selectOption(theme === 'dark' ? 'light' : 'dark');
      await page.reload();
      assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), back);
      await close();
      await stopLoad();
    });
  }
}

// Nothing but a table or code scrolls sideways.
async function assertFits(page) {
  const wide = await page.evaluate(() =>
    [document.documentElement, document.body, ...document.querySelectorAll('main, .scroller, .settings')]
      .filter((element) => element.scrollWidth > element.clientWidth)
      .map((element) => element.tagName + '.' + element.className),
  );
  assert.deepEqual(wide, []);
}

// Keeps `clients` requests running, some with a prompt in common, until the function returned is
// called; that resolves when all have ended.
function startLoad(clients) {
  let wanted = true;
  const client = async (index) => {
    for (let round = 0; wanted; round += 1) {
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: {'Content-Type': 'application/json'},
        body: JSON.stringify({
          messages: [
            {role: 'system', content: index % 2 ? 'You count the trees of the forest and tell of each.' : ''},
            {role: 'user', content: `${story} ${round % 3}`},
          ],
          seed: index + clients * round,
          max_tokens: 400,
          temperature: 1.6,
        }),
      });
      await response.text();
    }
  };
  const ended = Promise.all(Array.from({length: clients}, (_, index) => client(index)));
  return () => {
    wanted = false;
    return ended;
  };
}

const sample = [
  {role: 'user', text: 'How do I sort a list in Python, and what does it cost?'},
  {
    role: 'assistant',
    thinking: 'They want sort and sorted, and the complexity.',
    text:
      'There are **two ways**:\n\n1. `sorted(items)` returns a new list\n2. `items.sort()` sorts in place\n   - it returns `None`\n\n' +
      '```python\nnames = ["Eve", "Bob"]\nfor name in sorted(names, key=str.lower, reverse=False):  # a line that is longer than a phone is wide\n    print(name)\n```\n\n' +
      '### Cost\n\n| case | comparisons | memory |\n|---|--:|--:|\n| sorted already | n | n |\n| worst | n log n | n |\n\n> Both are *stable*: equal items keep their order.\n\nMore in [the documentation](https://docs.python.org/3/howto/sorting.html).',
    calls: [],
    state: 'done',
    finish: 'stop',
    usage: {prompt_tokens: 1234, completion_tokens: 187, prompt_tokens_details: {cached_tokens: 1216}},
    timings: {queue_ms: 0.2, prefill_ms: 31, decode_ms: 812, decode_tokens_per_s: 229.1},
  },
  {role: 'user', text: 'Set a timer for five minutes.'},
  {
    role: 'assistant',
    thinking: '',
    text: '',
    calls: [{id: 'set_timer:0', name: 'set_timer', arguments: '{"minutes":5}'}],
    state: 'done',
    finish: 'tool_calls',
    usage: {prompt_tokens: 1440, completion_tokens: 24, prompt_tokens_details: {cached_tokens: 1424}},
    timings: {queue_ms: 0.1, prefill_ms: 22, decode_ms: 101, decode_tokens_per_s: 236},
  },
];
