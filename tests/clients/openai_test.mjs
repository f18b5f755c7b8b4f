// The openai package against a real server with the bundled model.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {
  assertCancelled, assertPerson, endless, load, personQuestion, personSchema, startServer, story, sum, timer, user,
  weather, weatherAnswer, weatherArguments, weatherQuestion,
} from './harness.mjs';

const OpenAI = load('openai');
const functions = [weather, timer].map((each) => ({type: 'function', function: each}));

let server;
let client;
let completions;
const clientOf = (of, options) => new OpenAI({baseURL: `${of.url}/v1`, apiKey: 'none', ...options});
before(async () => {
  server = await startServer();
  client = clientOf(server);
  completions = client.chat.completions;
});
after(() => server?.stop());

const ask = (fields, options) => completions.create({model: 'demo', temperature: 0, ...fields}, options);

test('models are listed and looked up', async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.deepEqual(ids, ['demo']);
  assert.equal((await client.models.retrieve('demo')).object, 'model');
  await assert.rejects(client.models.retrieve('gpt'), OpenAI.NotFoundError);
});

test('a chat is answered, with its thinking beside it and its tokens counted', async () => {
  const answer = await ask({messages: sum});
  const [choice] = answer.choices;
  assert.equal(choice.message.content, '7703');
  assert.match(choice.message.reasoning_content, /carry/);
  assert.equal(choice.finish_reason, 'stop');
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.ok(answer.usage.completion_tokens_details.reasoning_tokens > 0);
});

test('a conversation goes on', async () => {
  const messages = user('My name is Emma. I live in Rome and I am a doctor.');
  messages.push((await ask({messages})).choices[0].message, ...user('What is my name?'));
  assert.match((await ask({messages})).choices[0].message.content, /Emma/);
});

test('a stream adds up to the whole answer', async () => {
  const whole = await ask({messages: story, reasoning_effort: 'none'});
  const pieces = [];
  let usage;
  for await (const chunk of await ask({
    messages: story, reasoning_effort: 'none', stream: true, stream_options: {include_usage: true},
  })) {
    if (chunk.choices.length) pieces.push(chunk.choices[0].delta.content ?? '');
    usage = chunk.usage ?? usage;
  }
  assert.equal(pieces.join(''), whole.choices[0].message.content);
  assert.ok(pieces.filter(Boolean).length > 10, 'the answer came in few pieces');
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('the accumulating stream ends with the whole answer', async () => {
  const fields = {model: 'demo', temperature: 0, messages: sum};
  const whole = await ask(fields);
  const final = await completions.stream(fields).finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
  assert.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
});

test('a tool is called with the arguments of the question, and its result answered', async () => {
  const messages = user(weatherQuestion);
  const [choice] = (await ask({messages, tools: functions})).choices;
  assert.equal(choice.finish_reason, 'tool_calls');
  assert.equal(choice.message.tool_calls.length, 1);
  const [call] = choice.message.tool_calls;
  assert.equal(call.type, 'function');
  assert.equal(call.function.name, 'get_weather');
  assert.deepEqual(JSON.parse(call.function.arguments), weatherArguments);
  messages.push(choice.message, {role: 'tool', tool_call_id: call.id, content: '18 degrees, sunny'});
  const [answer] = (await ask({messages, tools: functions})).choices;
  assert.equal(answer.message.content, weatherAnswer);
  assert.equal(answer.finish_reason, 'stop');
});

test('a streamed tool call adds up to the whole one', async () => {
  const fields = {model: 'demo', temperature: 0, messages: user('Set a timer for 12 minutes.'), tools: functions};
  const whole = await ask(fields);
  const stream = completions.stream(fields);
  const done = [];
  stream.on('tool_calls.function.arguments.done', (call) => done.push([call.name, call.arguments]));
  const [choice] = (await stream.finalChatCompletion()).choices;
  assert.deepEqual(done, [['set_timer', '{"minutes": 12}']]);
  assert.equal(choice.finish_reason, 'tool_calls');
  const [{id, function: {name, arguments: text}}] = choice.message.tool_calls;
  assert.deepEqual({id, type: 'function', function: {name, arguments: text}}, whole.choices[0].message.tool_calls[0]);
});

test('the package runs tools by itself, whole and streamed', async () => {
  for (const stream of [false, true]) {
    const asked = [];
    const tools = [{
      type: 'function',
      function: {
        ...weather, parse: JSON.parse,
        function: (given) => {
          asked.push(given);
          return '18 degrees, sunny';
        },
      },
    }];
    const runner = completions.runTools({
      model: 'demo', temperature: 0, messages: user(weatherQuestion), tools, stream,
    });
    assert.equal(await runner.finalContent(), weatherAnswer);
    assert.deepEqual(asked, [weatherArguments]);
  }
});

test('an answer follows its schema and is parsed, whole and streamed', async () => {
  const fields = {
    model: 'demo', temperature: 0, messages: user(personQuestion),
    response_format: {type: 'json_schema', json_schema: {name: 'person', strict: true, schema: personSchema}},
  };
  const whole = (await completions.parse(fields)).choices[0].message;
  assertPerson(whole.parsed);
  const streamed = (await completions.stream(fields).finalChatCompletion()).choices[0].message;
  assert.deepEqual(JSON.parse(streamed.content), whole.parsed);
});

test('a schema that means nothing is refused by name', async () => {
  const schema = {type: 'object', properties: {age: {type: 'strnig'}}};
  await assert.rejects(
    ask({messages: sum, response_format: {type: 'json_schema', json_schema: {name: 'person', schema}}}),
    (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, `${error}`);
      assert.match(error.param, /^response_format/);
      assert.match(error.message, /properties\/age\/type/);
      return true;
    });
});

test('tools are called that are demanded, by name or any', async () => {
  const named = {type: 'function', function: {name: 'set_timer'}};
  for (const choice of [named, 'required']) {
    const fields = {
      model: 'demo', temperature: 0, messages: sum, tools: functions, tool_choice: choice, parallel_tool_calls: false,
      reasoning_effort: 'none',
    };
    const whole = (await ask(fields)).choices[0];
    assert.equal(whole.finish_reason, 'tool_calls');
    const [call] = whole.message.tool_calls;
    if (choice === named) assert.equal(typeof JSON.parse(call.function.arguments).minutes, 'number');
    const streamed = (await completions.stream(fields).finalChatCompletion()).choices[0].message.tool_calls[0];
    assert.equal(streamed.function.name, call.function.name);
    assert.equal(streamed.function.arguments, call.function.arguments);
  }
});

test('tool choices that exclude calls are kept', async () => {
  const [choice] = (await ask({
    messages: user('Set a timer for 12 minutes.'), tools: functions, tool_choice: 'none', max_tokens: 100,
  })).choices;
  assert.equal(choice.message.tool_calls, undefined);
});

test('refusals are errors of their own class that name the field', async () => {
  const cases = [
    [{messages: sum, temperature: -1}, OpenAI.BadRequestError, 400, 'temperature', null],
    [{messages: [], stream: true}, OpenAI.BadRequestError, 400, 'messages', null],
    [{messages: [{role: 'robot', content: ''}]}, OpenAI.BadRequestError, 400, 'messages[0].role', null],
    [{messages: user('a b '.repeat(40_000))}, OpenAI.BadRequestError, 400, 'messages', 'context_length_exceeded'],
    [{messages: sum, model: 'gpt'}, OpenAI.NotFoundError, 404, 'model', 'model_not_found'],
  ];
  for (const [fields, kind, status, param, code] of cases) {
    await assert.rejects(ask(fields), (error) => {
      assert.ok(error instanceof kind, `${error}`);
      assert.deepEqual([error.status, error.param, error.code], [status, param, code]);
      assert.ok(error.message.length > 10, error.message);
      return true;
    });
  }
});

test('a full queue is a rate limit, and the package tries again', async () => {
  const small = await startServer('--max-running', '1', '--max-queued', '1');
  try {
    const once = clientOf(small, {maxRetries: 0});
    const several = await Promise.allSettled(
      Array.from({length: 6}, () => once.chat.completions.create({model: 'demo', messages: sum, temperature: 0})),
    );
    const refused = several.filter((each) => each.status === 'rejected').map((each) => each.reason);
    assert.ok(refused.length > 0 && refused.length < 6, `${refused.length} of 6 were refused`);
    for (const error of refused) {
      assert.ok(error instanceof OpenAI.RateLimitError, `${error}`);
      assert.equal(error.headers.get('retry-after'), '1');
    }
    const patient = clientOf(small, {maxRetries: 5});
    const answers = await Promise.all(
      Array.from({length: 4}, () => patient.chat.completions.create({model: 'demo', messages: sum, temperature: 0})),
    );
    for (const answer of answers) assert.equal(answer.choices[0].message.content, '7703');
  } finally {
    small.stop();
  }
});

test('an aborted stream ends its request', async () => {
  const controller = new AbortController();
  const stream = await ask({...endless, stream: true}, {signal: controller.signal});
  let chunks = 0;
  // The package ends the loop without an error.
  for await (const chunk of stream) {
    assert.equal(chunk.choices[0].finish_reason, null);
    if (++chunks === 3) controller.abort();
  }
  await assertCancelled(server);
  // So does leaving the loop.
  for await (const chunk of await ask({...endless, stream: true})) {
    if (chunk.choices[0].delta.reasoning_content) break;
  }
  await assertCancelled(server);
});

test('an aborted or overdue request ends, too', async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(ask(endless, {signal: controller.signal}), OpenAI.APIUserAbortError);
  await assertCancelled(server);
  await assert.rejects(ask(endless, {timeout: 100, maxRetries: 0}), OpenAI.APIConnectionTimeoutError);
  await assertCancelled(server);
});

test('log-probs cover every token, whole and streamed', async () => {
  const fields = {messages: sum, logprobs: true, top_logprobs: 2, max_tokens: 30};
  const whole = await ask(fields);
  const entries = whole.choices[0].logprobs.content;
  assert.equal(entries.length, whole.usage.completion_tokens);
  for (const entry of entries) {
    assert.equal(entry.top_logprobs.length, 2);
    assert.equal(entry.top_logprobs[0].token, entry.token); // greedy
  }
  const final = await completions.stream({model: 'demo', temperature: 0, ...fields}).finalChatCompletion();
  assert.deepEqual(final.choices[0].logprobs.content, entries);
});

test('several choices come whole and streamed', async () => {
  const fields = {
    model: 'demo', messages: story, reasoning_effort: 'none', n: 3, seed: 5, temperature: 1, max_tokens: 12,
  };
  const whole = await completions.create(fields);
  assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1, 2]);
  const texts = (answer) => answer.choices.map((choice) => choice.message.content ?? '');
  assert.ok(new Set(texts(whole)).size > 1, 'the choices are alike');
  assert.deepEqual(texts(await completions.stream(fields).finalChatCompletion()), texts(whole));
});

test('an answer ends at a stop string', async () => {
  const fields = {messages: story, reasoning_effort: 'none'};
  const text = (await ask(fields)).choices[0].message.content;
  const stop = text.slice(20, 28);
  const [choice] = (await ask({...fields, stop: [stop]})).choices;
  assert.equal(choice.message.content, text.slice(0, text.indexOf(stop)));
  assert.equal(choice.finish_reason, 'stop');
});
