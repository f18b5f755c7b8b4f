// The examples of docs/clients.md in JavaScript do what the page says.
//
//   docs_test.mjs TANDEM PACKAGES
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {promisify} from 'node:util';
import {startServer} from './harness.mjs';

const packages = process.argv[3];
const page = readFileSync(new URL('../../docs/clients.md', import.meta.url), 'utf8');
// A block, and the output that follows it.
const examples = [...page.matchAll(/```js\n(.*?)```\n```\n(.*?)```\n/gs)];

let server;
before(async () => {
  server = await startServer();
});
after(() => server?.stop());

test('the page has examples', () => assert.ok(examples.length >= 3));

for (const [index, [, code, output]] of examples.entries()) {
  test(`example ${index + 1}`, async () => {
    // Beside the packages, which the example imports.
    const file = join(packages, `example_${index + 1}.mjs`);
    writeFileSync(file, code.replaceAll('http://127.0.0.1:8000', server.url));
    const {stdout} = await promisify(execFile)(process.execPath, [file], {timeout: 60_000});
    assert.equal(stdout, output);
  });
}
