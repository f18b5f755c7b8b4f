// The block half of a small Markdown: what models write. Text in, plain data out; made to be called
// again with every piece of an answer, so whatever is open at the end counts as closed.
import {parseInline, type Inline} from './inline';

export type Align = 'left' | 'center' | 'right';

export type Block =
  | {kind: 'paragraph'; children: Inline[]}
  | {kind: 'heading'; level: number; children: Inline[]}
  | {kind: 'code'; language: string; text: string}
  | {kind: 'list'; start: number | undefined; items: Block[][]} // start: of an ordered one
  | {kind: 'quote'; children: Block[]}
  | {kind: 'rule'}
  | {kind: 'table'; align: Align[]; head: Inline[][]; rows: Inline[][][]};

const maxDepth = 8;

// None of these may backtrack over a run of blanks twice: lines come from a model.
const fence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const heading = /^ {0,3}(#{1,6}) +(.*)$/;
const rule = /^ {0,3}([-*_])\s*(\1\s*){2,}$/;
const quote = /^ {0,3}> ?/;
const item = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;

export function parseMarkdown(text: string): Block[] {
  return new BlockParser(text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').split('\n'), 0).parse();
}

class BlockParser {
  private at = 0;
  private readonly blocks: Block[] = [];
  private paragraph: string[] = [];

  constructor(
    private readonly lines: readonly string[],
    private readonly depth: number,
  ) {}

  parse(): Block[] {
    while (this.at < this.lines.length) {
      const line = this.line();
      if (line.trim() === '') {
        this.endParagraph();
        this.at += 1;
      } else if (!this.block(line)) {
        this.paragraph.push(line.trim());
        this.at += 1;
      }
    }
    this.endParagraph();
    return this.blocks;
  }

  private line(): string {
    return this.lines[this.at] ?? '';
  }

  private endParagraph(): void {
    if (this.paragraph.length === 0) return;
    this.blocks.push({kind: 'paragraph', children: parseInline(this.paragraph.join('\n'))});
    this.paragraph = [];
  }

  private push(block: Block): true {
    this.endParagraph();
    this.blocks.push(block);
    return true;
  }

  // Takes the block that begins here; false if it is a line of a paragraph.
  private block(line: string): boolean {
    const opened = fence.exec(line);
    if (opened) return this.code(opened[1] ?? '', (opened[2] ?? '').trim());
    const title = heading.exec(line);
    if (title) {
      this.at += 1;
      return this.push({
        kind: 'heading',
        level: title[1]?.length ?? 1,
        children: parseInline((title[2] ?? '').trim()),
      });
    }
    if (rule.test(line)) {
      this.at += 1;
      return this.push({kind: 'rule'});
    }
    if (this.depth < maxDepth && quote.test(line)) return this.quoted();
    if (this.depth < maxDepth && item.test(line)) return this.list();
    if (line.includes('|') && this.paragraph.length === 0) return this.table(line);
    return false;
  }

  private code(mark: string, language: string): boolean {
    const text: string[] = [];
    const closing = new RegExp(`^ {0,3}[${mark[0]}]{${mark.length},}\\s*$`);
    for (this.at += 1; this.at < this.lines.length && !closing.test(this.line()); this.at += 1) {
      text.push(this.line());
    }
    this.at += 1;
    return this.push({kind: 'code', language: language.split(/\s/)[0] ?? '', text: text.join('\n')});
  }

  private quoted(): boolean {
    const inner: string[] = [];
    while (this.at < this.lines.length && quote.test(this.line())) {
      inner.push(this.line().replace(quote, ''));
      this.at += 1;
    }
    return this.push({kind: 'quote', children: new BlockParser(inner, this.depth + 1).parse()});
  }

  private list(): boolean {
    const first = item.exec(this.line())?.[2] ?? '-';
    const ordered = /\d/.test(first);
    const sameKind = (mark: string) => (ordered ? /\d/.test(mark) : mark === first);
    const items: Block[][] = [];
    for (;;) {
      const found = item.exec(this.line());
      if (!found || !sameKind(found[2] ?? '') || rule.test(this.line())) break;
      items.push(this.listItem(found[0]));
    }
    return this.push({kind: 'list', start: ordered ? parseInt(first, 10) : undefined, items});
  }

  // The item's first line, and those that are indented beneath it.
  private listItem(mark: string): Block[] {
    const indent = mark.trimEnd().length + 1;
    const inner = [this.line().slice(mark.length)];
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const line = this.line();
      const blank = line.trim() === '';
      const next = this.lines[this.at + 1] ?? '';
      const leading = (text: string) => text.length - text.trimStart().length;
      if (blank ? !(leading(next) >= 2 && next.trim() !== '') && !item.test(next) : leading(line) < 2) {
        // A line that goes on with the item's paragraph need not be indented.
        if (blank || item.test(line) || this.startsBlock(line)) break;
      }
      inner.push(line.slice(Math.min(indent, leading(line))));
    }
    return new BlockParser(inner, this.depth + 1).parse();
  }

  private startsBlock(line: string): boolean {
    return fence.test(line) || heading.test(line) || quote.test(line) || rule.test(line);
  }

  private table(line: string): boolean {
    const ruler = this.lines[this.at + 1] ?? '';
    if (!cells(ruler).every((cell) => /^:?-+:?$/.test(cell))) return false;
    const align = cells(ruler).map((cell): Align => {
      if (!cell.endsWith(':')) return 'left';
      return cell.startsWith(':') ? 'center' : 'right';
    });
    const head = cells(line);
    if (head.length !== align.length) return false;
    const rows: Inline[][][] = [];
    for (this.at += 2; this.at < this.lines.length && this.line().includes('|'); this.at += 1) {
      const row = cells(this.line()).slice(0, align.length);
      while (row.length < align.length) row.push('');
      rows.push(row.map((cell) => parseInline(cell)));
    }
    return this.push({kind: 'table', align, head: head.map((cell) => parseInline(cell)), rows});
  }
}

function cells(line: string): string[] {
  return line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));
}
