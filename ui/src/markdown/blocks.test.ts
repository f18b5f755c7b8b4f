import {describe, expect, it} from 'vitest';
import {parseMarkdown, type Block} from './blocks';

const paragraph = (text: string): Block => ({kind: 'paragraph', children: [{kind: 'text', text}]});
const kinds = (text: string) => parseMarkdown(text).map((block) => block.kind);

describe('parseMarkdown', () => {
  it('separates paragraphs, headings and rules', () => {
    expect(kinds('# A\nb\n\nc\n\n---\n### d')).toEqual([
      'heading',
      'paragraph',
      'paragraph',
      'rule',
      'heading',
    ]);
    expect(parseMarkdown('#hashtag')).toEqual([paragraph('#hashtag')]);
  });

  it('keeps code as it is, also while its end is missing', () => {
    const code = {kind: 'code', language: 'cpp', text: '# a\n\n  <b> *c*'};
    expect(parseMarkdown('```cpp\n# a\n\n  <b> *c*\n```\nd')).toEqual([code, paragraph('d')]);
    expect(parseMarkdown('```cpp\n# a\n\n  <b> *c*')).toEqual([code]);
    expect(parseMarkdown('````\n```\n````')).toEqual([{kind: 'code', language: '', text: '```'}]);
  });

  it('nests lists and numbers them as written', () => {
    expect(parseMarkdown('3. a\n   - b\n   - c\n4. d')).toEqual([
      {
        kind: 'list',
        start: 3,
        items: [
          [
            paragraph('a'),
            {kind: 'list', start: undefined, items: [[paragraph('b')], [paragraph('c')]]},
          ],
          [paragraph('d')],
        ],
      },
    ]);
  });

  it('keeps code and paragraphs in their list item', () => {
    const list = parseMarkdown('- a\n\n  b\n  ```\n  x\n  ```\n- c')[0];
    expect(list?.kind === 'list' && list.items.map((item) => item.map((b) => b.kind))).toEqual([
      ['paragraph', 'paragraph', 'code'],
      ['paragraph'],
    ]);
  });

  it('ends a list at text after a blank line', () => {
    expect(kinds('- a\n- b\n\nc')).toEqual(['list', 'paragraph']);
  });

  it('nests quotes', () => {
    expect(parseMarkdown('> a\n> > b')).toEqual([
      {kind: 'quote', children: [paragraph('a'), {kind: 'quote', children: [paragraph('b')]}]},
    ]);
  });

  it('reads tables and pads short rows', () => {
    const table = parseMarkdown('| a | b |\n|:-:|--:|\n| 1 \\| 2 | 3 |\n| 4 |')[0];
    expect(table).toEqual({
      kind: 'table',
      align: ['center', 'right'],
      head: [[{kind: 'text', text: 'a'}], [{kind: 'text', text: 'b'}]],
      rows: [
        [[{kind: 'text', text: '1 | 2'}], [{kind: 'text', text: '3'}]],
        [[{kind: 'text', text: '4'}], []],
      ],
    });
    expect(kinds('a | b\nno table')).toEqual(['paragraph']);
  });

  it('takes any text, and any beginning of it', () => {
    const text = '# a\n- b\n  > c\n\n|d|\n|-|\n1) ```\n***\n```x\n\t- [e](f';
    for (let end = 0; end <= text.length; end += 1) {
      expect(parseMarkdown(text.slice(0, end))).toBeInstanceOf(Array);
    }
  });

  it.each(['> ', '- ', '- a\n', '# ', ' ', '|', '|-', '|-|\n', '```', '\n\n', '1. ', '* ', '  - a\n\n', '---'])(
    'is quick on many of %j',
    (piece) => {
      const begin = performance.now();
      parseMarkdown(`#${piece.repeat(20_000)}x`);
      parseMarkdown(piece.repeat(20_000));
      expect(performance.now() - begin).toBeLessThan(3000);
    },
  );
});
