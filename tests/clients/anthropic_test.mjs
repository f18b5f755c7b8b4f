// The @anthropic-ai/sdk package against a real server with the bundled model.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {
  assertCancelled, load, startServer, story, sum, timer, user, weather, weatherAnswer, weatherArguments,
  weatherQuestion,
} from './harness.mjs';

const Anthropic = load('@anthropic-ai/sdk').default;
const tools = [weather, timer].map(({parameters, ...rest}) => ({...rest, input_schema: parameters}));

let server;
let messages;
before(async () => {
  server = await startServer();
  messages = new Anthropic({baseURL: server.url, apiKey: 'none'}).messages;
});
after(() => server?.stop());

const shared = {model: 'demo', max_tokens: 1000, temperature: 0};
const thinking = {type: 'enabled', budget_tokens: 1024};
const ask = (fields, options) => messages.create({...shared, ...fields}, options);
const essence = ({content, stop_reason: reason, stop_sequence: stop, usage}) => ({content, reason, stop, usage});

test('a message is answered, with its thinking in a block of its own', async () => {
  const answer = await ask({messages: sum, thinking});
  assert.deepEqual(answer.content.map((block) => block.type), ['thinking', 'text']);
  assert.match(answer.content[0].thinking, /carry/);
  assert.equal(answer.content[1].text, '7703');
  assert.equal(answer.stop_reason, 'end_turn');
  assert.ok(answer.usage.output_tokens > 0);
  const {input_tokens: counted} = await messages.countTokens({model: 'demo', messages: sum, thinking});
  assert.equal(answer.usage.input_tokens + (answer.usage.cache_read_input_tokens ?? 0), counted);
});

test('the accumulating stream ends with the whole answer', async () => {
  for (const fields of [{messages: sum, thinking}, {messages: story}, {messages: story, stop_sequences: ['time']}]) {
    await ask(fields); // from here on the cache has the prompt
    const whole = await ask(fields);
    const pieces = [];
    const stream = messages.stream({...shared, ...fields}).on('text', (text) => pieces.push(text));
    assert.deepEqual(essence(await stream.finalMessage()), essence(whole));
    assert.equal(pieces.join(''), whole.content.at(-1).text);
  }
});

// Case C61: the package joins the pieces of the input and parses them as they come.
test('a tool is used with the input of the question, whole and streamed, and its result answered', async () => {
  const asked = user(weatherQuestion);
  const whole = await ask({messages: asked, tools, thinking});
  assert.equal(whole.stop_reason, 'tool_use');
  const use = whole.content.at(-1);
  assert.deepEqual([use.type, use.name, use.input], ['tool_use', 'get_weather', weatherArguments]);

  const pieces = [];
  const streamed = await messages.stream({...shared, messages: asked, tools, thinking})
    .on('inputJson', (piece) => pieces.push(piece)).finalMessage();
  assert.deepEqual(streamed.content, whole.content);
  assert.deepEqual(JSON.parse(pieces.join('')), weatherArguments);
  assert.ok(pieces.length > 2, 'the input came in few pieces');

  asked.push({role: 'assistant', content: whole.content}, {
    role: 'user', content: [{type: 'tool_result', tool_use_id: use.id, content: '18 degrees, sunny'}],
  });
  const answer = await ask({messages: asked, tools, thinking});
  assert.equal(answer.content.at(-1).text, weatherAnswer);
  assert.equal(answer.stop_reason, 'end_turn');
});

test('the events of a tool use come in the legal order', async () => {
  const open = new Set();
  const kinds = [];
  for await (const event of await ask({messages: user(weatherQuestion), tools, thinking, stream: true})) {
    kinds.push(event.type);
    if (event.type === 'content_block_start') {
      assert.equal(open.size, 0, 'two blocks are open');
      open.add(event.index);
    } else if (event.type === 'content_block_delta') {
      assert.ok(open.has(event.index));
    } else if (event.type === 'content_block_stop') {
      assert.ok(open.delete(event.index));
    }
  }
  assert.equal(kinds[0], 'message_start');
  assert.deepEqual(kinds.slice(-2), ['message_delta', 'message_stop']);
  assert.equal(open.size, 0);
});

test('a tool that is demanded is used', async () => {
  const answer = await ask({messages: sum, tools, tool_choice: {type: 'tool', name: 'set_timer'}});
  const use = answer.content.at(-1);
  assert.deepEqual([use.type, use.name, typeof use.input.minutes], ['tool_use', 'set_timer', 'number']);
});

test('refusals are errors of their own class that name the field', async () => {
  const cases = [
    [{messages: sum, temperature: -1}, Anthropic.BadRequestError, 400, 'invalid_request_error', /^temperature/],
    [{messages: []}, Anthropic.BadRequestError, 400, 'invalid_request_error', /^messages/],
    [{messages: [{role: 'robot', content: ''}], stream: true}, Anthropic.BadRequestError, 400,
      'invalid_request_error', /^messages\.0\.role/],
    [{messages: sum, model: 'claude'}, Anthropic.NotFoundError, 404, 'not_found_error', /claude/],
  ];
  for (const [fields, kind, status, type, message] of cases) {
    await assert.rejects(ask(fields), (error) => {
      assert.ok(error instanceof kind, `${error}`);
      assert.equal(error.status, status);
      assert.equal(error.error.error.type, type);
      assert.match(error.error.error.message, message);
      return true;
    });
  }
});

test('an aborted stream ends its request', async () => {
  const controller = new AbortController();
  const schema = {type: 'array', items: {type: 'integer'}, minItems: 500}; // enough to be interrupted
  const stream = await ask({
    messages: sum, max_tokens: 20000, output_config: {format: {type: 'json_schema', schema}}, stream: true,
  }, {signal: controller.signal});
  for await (const event of stream) {
    if (event.type === 'content_block_delta') controller.abort();
  }
  await assertCancelled(server);
});
