// The key that a server with keys asks for. Kept for this tab only, so that it is gone with it.
const name = 'tandem.apiKey';

export function apiKey(): string {
  try {
    return sessionStorage.getItem(name) ?? '';
  } catch {
    return ''; // a browser that forbids storage
  }
}

export function setApiKey(key: string): void {
  try {
    sessionStorage.setItem(name, key.trim());
  } catch {
    // Then it has to be given again on each page.
  }
}

// What requests to the server carry beside their own headers.
export function keyHeaders(): Record<string, string> {
  const key = apiKey();
  return key === '' ? {} : {Authorization: `Bearer ${key}`};
}
