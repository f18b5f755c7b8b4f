// The packages ai and @ai-sdk/openai-compatible against a real server with the bundled model.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {
  assertCancelled, assertPerson, endless, load, personQuestion, personSchema, startServer, story, sum, weather,
  weatherAnswer, weatherArguments, weatherQuestion,
} from './harness.mjs';

const {
  APICallError, generateObject, generateText, jsonSchema, stepCountIs, streamObject, streamText, tool,
} = load('ai');
const {createOpenAICompatible} = load('@ai-sdk/openai-compatible');

let server;
let model;
let greedy;
before(async () => {
  server = await startServer();
  model = createOpenAICompatible({
    name: 'tandem', baseURL: `${server.url}/v1`, includeUsage: true, supportsStructuredOutputs: true,
  });
  greedy = {model: model('demo'), temperature: 0, maxRetries: 0};
});
after(() => server?.stop());

// A tool that notes its arguments.
function weatherTool(asked) {
  return {
    get_weather: tool({
      description: weather.description,
      inputSchema: jsonSchema(weather.parameters),
      execute: async (given) => {
        asked.push(given);
        return '18 degrees, sunny';
      },
    }),
  };
}

test('a chat is answered, with its thinking beside it and its tokens counted', async () => {
  const answer = await generateText({...greedy, messages: sum});
  assert.equal(answer.text, '7703');
  assert.match(answer.reasoningText, /carry/);
  assert.equal(answer.finishReason, 'stop');
  assert.equal(answer.usage.totalTokens, answer.usage.inputTokens + answer.usage.outputTokens);
  assert.ok(answer.usage.outputTokenDetails.reasoningTokens > 0);
});

test('a stream adds up to the whole answer', async () => {
  const whole = await generateText({...greedy, messages: sum});
  const stream = streamText({...greedy, messages: sum});
  const kinds = new Set();
  let text = '';
  let thinking = '';
  for await (const part of stream.fullStream) {
    kinds.add(part.type);
    if (part.type === 'text-delta') text += part.text;
    if (part.type === 'reasoning-delta') thinking += part.text;
  }
  assert.equal(text, whole.text);
  assert.equal(thinking, whole.reasoningText);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
  assert.ok(!kinds.has('error'), [...kinds].join());
});

test('a tool is called and its result answered', async () => {
  const asked = [];
  const answer = await generateText({
    ...greedy, prompt: weatherQuestion, tools: weatherTool(asked), stopWhen: stepCountIs(3),
  });
  assert.deepEqual(asked, [weatherArguments]);
  assert.equal(answer.text, weatherAnswer);
  assert.deepEqual(answer.steps.map((step) => step.finishReason), ['tool-calls', 'stop']);
});

test('a streamed tool call is the same', async () => {
  const asked = [];
  const stream = streamText({
    ...greedy, prompt: weatherQuestion, tools: weatherTool(asked), stopWhen: stepCountIs(3),
  });
  const pieces = [];
  for await (const part of stream.fullStream) {
    assert.notEqual(part.type, 'error', `${part.error}`);
    if (part.type === 'tool-input-delta') pieces.push(part.delta);
  }
  assert.deepEqual(JSON.parse(pieces.join('')), weatherArguments);
  assert.ok(pieces.length > 1, 'the arguments came in one piece');
  assert.deepEqual(asked, [weatherArguments]);
  assert.equal(await stream.text, weatherAnswer);
});

test('an object follows its schema, whole and streamed', async () => {
  const fields = {...greedy, prompt: personQuestion, schema: jsonSchema(personSchema)};
  const whole = await generateObject(fields);
  assertPerson(whole.object);
  const stream = streamObject(fields);
  let parts = 0;
  for await (const _ of stream.partialObjectStream) parts++;
  assert.deepEqual(await stream.object, whole.object);
  assert.ok(parts > 1, 'the object came in one piece');
});

test('a tool that is demanded is called', async () => {
  const asked = [];
  const answer = await generateText({
    ...greedy, messages: sum, tools: weatherTool(asked), toolChoice: {type: 'tool', toolName: 'get_weather'},
    maxOutputTokens: 2000,
  });
  assert.equal(answer.finishReason, 'tool-calls');
  assert.equal(typeof asked[0].city, 'string');
});

test('a refusal is an error with its status and field, not to be tried again', async () => {
  const cases = [
    [{temperature: 3}, 400, 'temperature', null],
    [{model: model('gpt')}, 404, 'model', 'model_not_found'],
  ];
  for (const [fields, status, param, code] of cases) {
    await assert.rejects(generateText({...greedy, messages: story, ...fields}), (error) => {
      assert.ok(APICallError.isInstance(error), `${error}`);
      assert.equal(error.statusCode, status);
      assert.equal(error.isRetryable, false);
      assert.deepEqual([error.data.error.param, error.data.error.code], [param, code]);
      return true;
    });
  }
});

test('an aborted stream ends its request', async () => {
  const {messages, ...others} = endless;
  const controller = new AbortController();
  const stream = streamText({
    ...greedy, messages, providerOptions: {tandem: others}, abortSignal: controller.signal,
  });
  let deltas = 0;
  let last;
  for await (const part of stream.fullStream) {
    last = part.type;
    if (part.type === 'reasoning-delta' && ++deltas === 3) controller.abort();
  }
  assert.equal(last, 'abort');
  await assertCancelled(server);
});
