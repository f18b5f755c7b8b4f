// Light, dark, or as the system is.
import {useEffect, useState} from 'preact/hooks';
import {load, save} from './storage';

export type Theme = 'system' | 'light' | 'dark';

const themes: readonly Theme[] = ['system', 'light', 'dark'];

export function applyTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
}

export function storedTheme(): Theme {
  const theme = load<Theme>('theme', 'system');
  return themes.includes(theme) ? theme : 'system';
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(storedTheme);
  return [
    theme,
    (next) => {
      applyTheme(next);
      save('theme', next);
      setTheme(next);
    },
  ];
}

// Changes whenever colours do: something to redraw a canvas by.
export function useColourScheme(): string {
  const query = '(prefers-color-scheme: dark)';
  const current = () =>
    document.documentElement.dataset['theme'] ?? (matchMedia(query).matches ? 'dark' : 'light');
  const [scheme, setScheme] = useState(current);
  useEffect(() => {
    const update = () => setScheme(current());
    const media = matchMedia(query);
    media.addEventListener('change', update);
    const observer = new MutationObserver(update);
    observer.observe(document.documentElement, {attributeFilter: ['data-theme']});
    return () => {
      media.removeEventListener('change', update);
      observer.disconnect();
    };
  }, []);
  return scheme;
}

// The computed value of a custom property, as a colour that a canvas takes.
export function cssColour(name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
