// Numbers as people read them.

export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

// Three digits at most, so that a changing number keeps its width.
export function short(value: number): string {
  const units = ['', 'k', 'M', 'G', 'T'];
  let unit = 0;
  let rest = value;
  while (rest >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  const digits = unit === 0 ? (rest < 9.95 && !Number.isInteger(rest) ? 1 : 0) : rest < 9.995 ? 2 : rest < 99.95 ? 1 : 0;
  return rest.toFixed(digits) + (units[unit] ?? '');
}

export function milliseconds(value: number): string {
  if (value < 1) return '<1 ms';
  if (value < 999.5) return `${Math.round(value)} ms`;
  return value < 99_950 ? `${(value / 1000).toFixed(1)} s` : `${count(value / 1000)} s`;
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let rest = value;
  while (rest >= 999.5 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 || rest >= 99.95 ? rest.toFixed(0) : rest.toFixed(1)} ${units[unit] ?? ''}`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
