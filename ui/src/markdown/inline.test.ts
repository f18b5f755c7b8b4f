import {describe, expect, it} from 'vitest';
import {parseInline, safeHref, type Inline} from './inline';

const text = (value: string): Inline => ({kind: 'text', text: value});

describe('parseInline', () => {
  it('nests emphasis', () => {
    expect(parseInline('a **b *c* d** e')).toEqual([
      text('a '),
      {kind: 'strong', children: [text('b '), {kind: 'em', children: [text('c')]}, text(' d')]},
      text(' e'),
    ]);
    expect(parseInline('***x***')).toEqual([
      {kind: 'strong', children: [{kind: 'em', children: [text('x')]}]},
    ]);
    expect(parseInline('~~no~~')).toEqual([{kind: 'del', children: [text('no')]}]);
  });

  it('leaves arithmetic, names and unclosed marks alone', () => {
    for (const plain of ['2 * 3 * 4', 'snake_case_name', '**open', 'a ** b', '5 ~ 6', '`open', '* * *']) {
      expect(parseInline(plain)).toEqual([text(plain)]);
    }
  });

  it('takes code literally, marks and all', () => {
    expect(parseInline('`**a**` and ``x`y``')).toEqual([
      {kind: 'code', text: '**a**'},
      text(' and '),
      {kind: 'code', text: 'x`y'},
    ]);
    expect(parseInline('*a `*` b*')).toEqual([
      {kind: 'em', children: [text('a '), {kind: 'code', text: '*'}, text(' b')]},
    ]);
  });

  it('honours escapes', () => {
    expect(parseInline('\\*a\\* \\z')).toEqual([text('*a* \\z')]);
  });

  it('keeps line breaks', () => {
    expect(parseInline('a\nb')).toEqual([text('a'), {kind: 'break'}, text('b')]);
  });

  it('makes links of http, https and mailto alone', () => {
    expect(parseInline('[a](https://x.org/b_(c))')).toEqual([
      {kind: 'link', href: 'https://x.org/b_(c)', children: [text('a')]},
    ]);
    expect(parseInline('see https://x.org/a_b, ok')).toEqual([
      text('see '),
      {kind: 'link', href: 'https://x.org/a_b', children: [text('https://x.org/a_b')]},
      text(', ok'),
    ]);
    for (const href of ['javascript:alert(1)', 'JAVASCRIPT:1', 'data:text/html,x', '//x.org', ' https://', 'vbscript:x', 'java\nscript:x']) {
      expect(safeHref(href)).toBeUndefined();
      expect(parseInline(`[a](${href})`).some((node) => node.kind === 'link')).toBe(false);
    }
  });

  it('turns pictures into links: nothing foreign is loaded', () => {
    expect(parseInline('![cat](https://x.org/cat.png)')).toEqual([
      {kind: 'link', href: 'https://x.org/cat.png', children: [text('cat')]},
    ]);
  });

  it('takes HTML as text', () => {
    const html = '<img src=x onerror=alert(1)>';
    expect(parseInline(html)).toEqual([text(html)]);
  });

  it.each(['*', '**', '*a', '_a ', '[', '[a](', '`', '``` `', '![', '~~a', '[a](https://x', '**a*', '\\', 'http://', '**a `'])(
    'is quick on many of %s',
    (piece) => {
      const begin = performance.now();
      parseInline(piece.repeat(20_000));
      // Quadratic work would take minutes.
      expect(performance.now() - begin).toBeLessThan(3000);
    },
  );
});
