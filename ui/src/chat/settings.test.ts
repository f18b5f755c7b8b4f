import {describe, expect, it} from 'vitest';
import {defaultSettings, requestFields} from './settings';

const fields = (settings: Partial<typeof defaultSettings>) =>
  requestFields({...defaultSettings, ...settings});

describe('requestFields', () => {
  it('sends nothing that was not set', () => {
    expect(fields({})).toEqual({fields: {}, problems: {}});
    expect(fields({temperature: '  '}).fields).toEqual({});
  });

  it('sends what was set, zero included', () => {
    expect(
      fields({temperature: '0', topP: '0.9', maxTokens: '20', seed: '-7', effort: 'low'}).fields,
    ).toEqual({
      temperature: 0,
      top_p: 0.9,
      max_completion_tokens: 20,
      seed: -7,
      reasoning_effort: 'low',
    });
  });

  it('names what is out of range', () => {
    const {fields: sent, problems} = fields({
      temperature: '2.1',
      topP: '0',
      maxTokens: '1.5',
      seed: 'x',
      tools: '[1]',
    });
    expect(sent).toEqual({});
    expect(Object.keys(problems)).toEqual(['temperature', 'topP', 'maxTokens', 'seed', 'tools']);
  });

  it('takes tools with and without their wrapping', () => {
    const wrapped = {type: 'function', function: {name: 'f'}};
    expect(fields({tools: '{"name": "f"}'}).fields.tools).toEqual([wrapped]);
    expect(fields({tools: JSON.stringify([wrapped])}).fields.tools).toEqual([wrapped]);
  });
});
