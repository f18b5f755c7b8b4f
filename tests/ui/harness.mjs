// The bundled model behind `tandem serve`, and a browser that looks at it.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {mkdirSync} from 'node:fs';
import {join} from 'node:path';
import {startServer as startTandem} from '../support/tandem_server.mjs';

// console_test.mjs TANDEM CHROMIUM UI_FOLDER PICTURES: the program, the browser, a copy of ui/ with
// its packages, and the folder where screenshots go.
const [tandem, chromium, uiFolder, pictures] = process.argv.slice(2);
const playwright = createRequire(join(uiFolder, 'package.json'))('playwright-core');
mkdirSync(pictures, {recursive: true});

export const startServer = (options = []) => startTandem(tandem, options);

// Chromium as root needs --no-sandbox; the pages are our own.
export const startBrowser = () =>
  playwright.chromium.launch({executablePath: chromium, args: ['--no-sandbox', '--disable-gpu']});

// A page that holds what must never happen against the test: script errors, violations of the
// page's policy, requests to anywhere but the server.
export async function openPage(browser, server, path = '/', options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 800}, ...options});
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(`script: ${error.message}`));
  page.on('console', (message) => {
    // A refused request is reported as such by the browser; tests of refusals expect that.
    if (message.type() === 'error' && !/status of 4\d\d|status of 5\d\d|ERR_FAILED/.test(message.text())) {
      faults.push(`console: ${message.text()}`);
    }
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(server.url)) faults.push(`request: ${request.url()}`);
  });
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(server.url + path);
  return {
    page,
    close: async () => {
      await context.close();
      assert.deepEqual(faults, []);
    },
  };
}

export const picture = (page, name) => page.screenshot({path: join(pictures, `${name}.png`)});

export async function send(page, text) {
  const field = page.getByRole('textbox', {name: 'Message', exact: true});
  await field.fill(text);
  await field.press('Enter');
}

export const answers = (page) => page.locator('article.answer');

// The last answer, once it is complete.
export async function lastAnswer(page) {
  const answer = answers(page).last();
  await answer.locator('footer').waitFor();
  return answer;
}

// Lets the server answer with `chunks` (the deltas of one choice), whatever is asked.
export function answerWith(page, chunks, finish = 'stop') {
  const body = [...chunks.map((delta) => ({delta, finish_reason: null})), {delta: {}, finish_reason: finish}]
    .map((choice) => `data: ${JSON.stringify({choices: [{index: 0, ...choice}]})}\n\n`)
    .join('');
  return page.route('**/v1/chat/completions', (route) =>
    route.fulfill({contentType: 'text/event-stream', body: `${body}data: [DONE]\n\n`}),
  );
}
