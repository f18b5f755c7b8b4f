// Sampling controls: what the fields hold as text, and the request fields that they stand for.
import type {ChatBody} from '../server/chat_client';

// As typed; empty: left to the model.
export interface Settings {
  system: string;
  temperature: string;
  topP: string;
  maxTokens: string;
  seed: string;
  effort: string;
  tools: string;
}

export const defaultSettings: Settings = {
  system: '',
  temperature: '',
  topP: '',
  maxTokens: '',
  seed: '',
  effort: '',
  tools: '',
};

export const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

export type Problems = Partial<Record<keyof Settings, string>>;

// The fields of a request, or what is wrong with which setting.
export function requestFields(settings: Settings): {fields: Partial<ChatBody>; problems: Problems} {
  const problems: Problems = {};
  const fields: Partial<ChatBody> = {};
  const number = (
    key: keyof Settings,
    set: (value: number) => void,
    check: (value: number) => boolean,
    expected: string,
  ) => {
    const text = settings[key].trim();
    if (text === '') return;
    const value = Number(text);
    if (Number.isFinite(value) && check(value)) set(value);
    else problems[key] = expected;
  };
  number('temperature', (v) => (fields.temperature = v), (v) => v >= 0 && v <= 2, 'from 0 to 2');
  number('topP', (v) => (fields.top_p = v), (v) => v > 0 && v <= 1, 'above 0, up to 1');
  number(
    'maxTokens',
    (v) => (fields.max_completion_tokens = v),
    (v) => Number.isSafeInteger(v) && v >= 1,
    'a whole number, at least 1',
  );
  number('seed', (v) => (fields.seed = v), Number.isSafeInteger, 'a whole number');
  if (settings.effort !== '') fields.reasoning_effort = settings.effort;
  if (settings.tools.trim() !== '') {
    const tools = parseTools(settings.tools);
    if (tools) fields.tools = tools;
    else problems.tools = 'a JSON list of functions';
  }
  return {fields, problems};
}

// Accepts bare functions, too: {"name": ..., "parameters": ...}.
function parseTools(text: string): unknown[] | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    const list = Array.isArray(parsed) ? parsed : [parsed];
    if (!list.every((tool) => typeof tool === 'object' && tool !== null)) return undefined;
    return list.map((tool) => ('name' in tool ? {type: 'function', function: tool} : tool));
  } catch {
    return undefined;
  }
}
