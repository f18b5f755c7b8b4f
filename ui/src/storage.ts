// Values kept in the browser. A browser that forbids it, or has no room, only forgets.

export function load<T>(key: string, fallback: T): T {
  try {
    const text = localStorage.getItem(`tandem.${key}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

export function save(key: string, value: unknown): void {
  try {
    localStorage.setItem(`tandem.${key}`, JSON.stringify(value));
  } catch {
    // Nothing that the user could do about it.
  }
}
