// The openai package's Responses API against a real server with the bundled model.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {
  assertCancelled, assertPerson, load, personQuestion, personSchema, startServer, story, sum, timer, user, weather,
  weatherAnswer, weatherArguments, weatherQuestion,
} from './harness.mjs';

const OpenAI = load('openai');
const tools = [weather, timer].map((each) => ({type: 'function', strict: false, ...each}));
const format = (schema) => ({format: {type: 'json_schema', name: 'answer', strict: true, schema}});

let server;
let responses;
before(async () => {
  server = await startServer();
  responses = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'none'}).responses;
});
after(() => server?.stop());

const shared = {model: 'demo', temperature: 0, store: false};
const ask = (fields, options) => responses.create({...shared, ...fields}, options);

test('a question is answered, with its thinking as an item of its own', async () => {
  const answer = await ask({input: sum[0].content});
  assert.equal(answer.output_text, '7703');
  assert.equal(answer.status, 'completed');
  assert.deepEqual(answer.output.map((item) => item.type), ['reasoning', 'message']);
  assert.match(answer.output[0].content[0].text, /carry/);
  assert.equal(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens);
  assert.ok(answer.usage.output_tokens_details.reasoning_tokens > 0);
});

test('a conversation goes on with the items of the answer', async () => {
  const input = user('My name is Emma. I live in Rome and I am a doctor.');
  input.push(...(await ask({input})).output, ...user('What is my name?'));
  assert.match((await ask({input})).output_text, /Emma/);
});

test('the accumulating stream ends with the whole answer', async () => {
  const kinds = [];
  let text = '';
  const stream = responses.stream({...shared, input: sum});
  for await (const event of stream) {
    kinds.push(event.type);
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  const final = await stream.finalResponse();
  const whole = await ask({input: sum});
  assert.equal(text, whole.output_text);
  assert.equal(final.output_text, whole.output_text);
  assert.equal(kinds[0], 'response.created');
  assert.equal(kinds.at(-1), 'response.completed');
});

test('a function is called with what was asked for, whole and streamed, and its result answered', async () => {
  const input = user(weatherQuestion);
  const whole = await ask({input, tools});
  const call = whole.output.at(-1);
  assert.deepEqual([call.type, call.name], ['function_call', 'get_weather']);
  assert.deepEqual(JSON.parse(call.arguments), weatherArguments);

  const streamed = (await responses.stream({...shared, input, tools}).finalResponse()).output.at(-1);
  assert.deepEqual([streamed.name, streamed.arguments], [call.name, call.arguments]);

  input.push(...whole.output, {type: 'function_call_output', call_id: call.call_id, output: '18 degrees, sunny'});
  assert.equal((await ask({input, tools})).output_text, weatherAnswer);
});

test('an answer follows its schema and is parsed', async () => {
  assertPerson((await responses.parse({...shared, input: personQuestion, text: format(personSchema)})).output_parsed);
});

test('refusals are errors of their own class that name the field', async () => {
  const cases = [
    [{input: sum, temperature: -1}, OpenAI.BadRequestError, 400, 'temperature'],
    [{input: [], stream: true}, OpenAI.BadRequestError, 400, 'input'],
    [{input: sum, model: 'gpt'}, OpenAI.NotFoundError, 404, 'model'],
  ];
  for (const [fields, kind, status, param] of cases) {
    await assert.rejects(ask(fields), (error) => {
      assert.ok(error instanceof kind, `${error}`);
      assert.deepEqual([error.status, error.param], [status, param]);
      return true;
    });
  }
});

test('an aborted stream ends its request', async () => {
  const controller = new AbortController();
  const schema = {type: 'array', items: {type: 'integer'}, minItems: 500}; // enough to be interrupted
  const stream = await ask({input: story, text: format(schema), stream: true}, {signal: controller.signal});
  for await (const event of stream) {
    if (event.type === 'response.output_text.delta') controller.abort();
  }
  await assertCancelled(server);
});
