import {keyHeaders} from './api_key';

// The name of the one model that the server has.
export async function modelName(): Promise<string> {
  const response = await fetch('/v1/models', {headers: keyHeaders()});
  const list = (await response.json()) as {data?: {id?: string}[]};
  return list.data?.[0]?.id ?? '';
}
