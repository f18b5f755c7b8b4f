// What the server answers under random schemas, judged by ajv: from the bundled model, and from one
// with random weights that has no idea of JSON.
//
//   structured_test.mjs TANDEM PACKAGES RANDOM_MODEL [COUNT]     default: 20 answers of each model
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {load, startServer, user} from './harness.mjs';
import {randomSchema, randomSource} from './random_schema.mjs';

const Ajv = load('ajv/dist/2020').default;
const addFormats = load('ajv-formats').default;
const [randomModel, count = '20'] = process.argv.slice(4);
const wanted = Number(count);
const atOnce = 4;

async function answer(server, schema, seed) {
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({
      messages: user('Describe a person as JSON.'), reasoning_effort: 'none', temperature: 1, top_p: 1, seed,
      max_tokens: 1000, response_format: {type: 'json_schema', json_schema: {name: 'answer', schema}},
    }),
  });
  const body = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  return body.choices[0];
}

// Answers that are cut off by max_tokens say nothing; there must be few.
async function judge(server, first) {
  const ajv = addFormats(new Ajv({strict: false}));
  const counts = {valid: 0, cut: 0};
  let next = first;
  const work = async () => {
    while (counts.valid < wanted) {
      const seed = next++;
      const schema = randomSchema(randomSource(seed));
      const {message, finish_reason: finish} = await answer(server, schema, seed);
      if (finish === 'length') {
        counts.cut++;
        continue;
      }
      assert.equal(finish, 'stop');
      const check = ajv.compile(schema);
      assert.ok(check(JSON.parse(message.content)),
        `seed ${seed}: ${JSON.stringify(check.errors)}\n${message.content}\n${JSON.stringify(schema)}`);
      counts.valid++;
    }
  };
  await Promise.all(Array.from({length: atOnce}, work));
  console.log(`${counts.valid} valid, ${counts.cut} cut off`);
  assert.ok(counts.cut <= 0.2 * wanted, `${counts.cut} answers were cut off`);
}

for (const [name, options] of [['the bundled model', []], ['random weights', [randomModel]]]) {
  test(`${name}: every answer is valid under its schema`, async () => {
    const server = await startServer(...options);
    try {
      await judge(server, 1);
    } finally {
      server.stop();
    }
  });
}
