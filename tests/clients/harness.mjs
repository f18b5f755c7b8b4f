// The bundled model behind `tandem serve`, and what the clients' tests ask it.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {setTimeout as wait} from 'node:timers/promises';
import {startServer as startTandem} from '../support/tandem_server.mjs';

// NAME_test.mjs TANDEM PACKAGES: the program, and the folder where the packages are installed.
const [tandem, packages] = process.argv.slice(2);
export const load = createRequire(join(packages, 'package.json'));
export const startServer = (...options) => startTandem(tandem, options);

export const user = (content) => [{role: 'user', content}];
export const sum = user('What is 4738 + 2965?'); // worked out column by column: 7703
export const story = user('Tell me a short story.');
// Without the tokens of the chat format (the last of the vocabulary) an answer cannot end.
const noMarkup = Object.fromEntries(Array.from({length: 32}, (_, i) => [4064 + i, -100]));
export const endless = {messages: user('Repeat the word cat 5 times.'), logit_bias: noMarkup};

export const weatherQuestion = 'What is the weather in Paris in celsius?';
export const weatherArguments = {city: 'Paris', unit: 'celsius'};
export const weatherAnswer = 'It is 18 degrees celsius and sunny in Paris.';
export const weather = {
  name: 'get_weather',
  description: 'Get the current weather in a city.',
  parameters: {
    type: 'object',
    properties: {city: {type: 'string'}, unit: {type: 'string'}},
    required: ['city'],
  },
};
export const timer = {
  name: 'set_timer',
  description: 'Start a timer.',
  parameters: {type: 'object', properties: {minutes: {type: 'number'}}, required: ['minutes']},
};

// The model knows how to describe a person; the schema wants it otherwise.
export const personQuestion = 'Describe a person as JSON.';
export const personSchema = {
  type: 'object',
  properties: {
    name: {type: 'string', minLength: 1, maxLength: 12},
    age: {type: 'integer', minimum: 18, maximum: 99},
    mood: {enum: ['good', 'bad']},
  },
  required: ['name', 'age', 'mood'],
  additionalProperties: false,
};
export function assertPerson(value) {
  assert.deepEqual(Object.keys(value).sort(), ['age', 'mood', 'name']);
  assert.ok(value.name.length >= 1 && value.name.length <= 12, value.name);
  assert.ok(Number.isInteger(value.age) && value.age >= 18 && value.age <= 99, `${value.age}`);
  assert.ok(['good', 'bad'].includes(value.mood), value.mood);
}

const live = async (server) => (await fetch(`${server.url}/live`)).json();

// The last request ended by its client, and the server runs none any more.
export async function assertCancelled(server) {
  const end = Date.now() + 20_000;
  for (;;) {
    const {running, queued, requests} = await live(server);
    if (running === 0 && queued === 0) {
      return assert.equal(requests.sort((a, b) => b.number - a.number)[0].finish, 'cancelled');
    }
    assert.ok(Date.now() < end, `${running} requests run, ${queued} wait`);
    await wait(10);
  }
}
