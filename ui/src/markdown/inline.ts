// The inline half of a small Markdown: code, emphasis, links, line breaks. HTML is text.

export type Inline =
  | {kind: 'text'; text: string}
  | {kind: 'code'; text: string}
  | {kind: 'strong' | 'em' | 'del'; children: Inline[]}
  | {kind: 'link'; href: string; children: Inline[]}
  | {kind: 'break'};

const maxDepth = 6;
const maxAddress = 2048; // characters
const special = /[\\`*_~![h\n]/g; // where something other than plain text may begin
const delimiters = [
  {mark: '**', kind: 'strong'},
  {mark: '__', kind: 'strong'},
  {mark: '~~', kind: 'del'},
  {mark: '*', kind: 'em'},
  {mark: '_', kind: 'em'},
] as const;

export function parseInline(text: string, depth = 0): Inline[] {
  return new InlineParser(text, depth).parse();
}

// Only addresses that open a page or a mail: a model must not be able to offer "javascript:".
export function safeHref(href: string): string | undefined {
  return /^(https?:\/\/|mailto:)[^\s]+$/i.test(href) ? href : undefined;
}

interface Span {
  node: Inline;
  end: number;
}

class InlineParser {
  private at = 0;
  private plain = '';
  private readonly nodes: Inline[] = [];
  // Marks that have no closing partner from some position on have none after it either; without
  // this memory (and the next) a hostile line would take quadratic time.
  private readonly hopeless = new Set<string>();
  private middle = -1; // the last "](" looked for; the text's length: there is none

  constructor(
    private readonly text: string,
    private readonly depth: number,
  ) {}

  parse(): Inline[] {
    while (this.at < this.text.length) {
      const span = this.spanHere();
      if (span) {
        this.flush();
        this.nodes.push(span.node);
        this.at = span.end;
      } else {
        this.takePlain();
      }
    }
    this.flush();
    return this.nodes;
  }

  private flush(): void {
    if (this.plain !== '') this.nodes.push({kind: 'text', text: this.plain});
    this.plain = '';
  }

  private takePlain(): void {
    const char = this.text[this.at] ?? '';
    const next = this.text[this.at + 1] ?? '';
    if (char === '\\' && /[!-/:-@[-`{-~]/.test(next)) {
      this.plain += next;
      this.at += 2;
      return;
    }
    // A whole run of one mark at once: "***" that opens nothing is text.
    do {
      this.plain += char;
      this.at += 1;
    } while ('*_~`'.includes(char) && this.text[this.at] === char);
    special.lastIndex = this.at;
    const end = special.exec(this.text)?.index ?? this.text.length;
    this.plain += this.text.slice(this.at, end);
    this.at = end;
  }

  private spanHere(): Span | undefined {
    switch (this.text[this.at]) {
      case '\n':
        return {node: {kind: 'break'}, end: this.at + 1};
      case '`':
        return this.code();
      case '!':
        return this.text[this.at + 1] === '[' ? this.link(this.at + 1) : undefined;
      case '[':
        return this.link(this.at);
      case 'h':
        return this.address();
      case '*':
      case '_':
      case '~':
        return this.emphasis();
      default:
        return undefined;
    }
  }

  private code(): Span | undefined {
    const mark = /^`+/.exec(this.text.slice(this.at))?.[0] ?? '`';
    if (this.hopeless.has(mark)) return undefined;
    const begin = this.at + mark.length;
    for (let end = this.text.indexOf(mark, begin); end >= 0; ) {
      let after = end + mark.length;
      if (this.text[after] !== '`') {
        const inner = this.text.slice(begin, end).replaceAll('\n', ' ');
        const text = /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner;
        return {node: {kind: 'code', text}, end: after};
      }
      while (this.text[after] === '`') after += 1;
      end = this.text.indexOf(mark, after);
    }
    this.hopeless.add(mark);
    return undefined;
  }

  // [label](address "title"); a picture becomes a link to it, since nothing foreign is loaded.
  private link(bracket: number): Span | undefined {
    if (this.middle < bracket) {
      const found = this.text.indexOf('](', bracket);
      this.middle = found < 0 ? this.text.length : found;
    }
    const middle = this.middle;
    const label = this.text.slice(bracket + 1, middle);
    // No link, or the inner bracket begins it.
    if (middle === this.text.length || label.includes('[')) return undefined;
    let close = middle + 2;
    const limit = Math.min(this.text.length, close + maxAddress);
    for (let open = 1; close < limit; close += 1) {
      const char = this.text[close];
      if (char === '\n') return undefined;
      if (char === '(') open += 1;
      if (char === ')' && --open === 0) break;
    }
    if (close >= limit) return undefined;
    const address = this.text.slice(middle + 2, close).trim().split(/\s/)[0] ?? '';
    const href = safeHref(address.replace(/^<(.*)>$/, '$1'));
    const children = this.nested(label);
    const node: Inline = href
      ? {kind: 'link', href, children: children.length > 0 ? children : [{kind: 'text', text: href}]}
      : {kind: 'text', text: label};
    return {node, end: close + 1};
  }

  // A bare http(s) address, up to its last character that is not punctuation.
  private address(): Span | undefined {
    if (/\w/.test(this.text[this.at - 1] ?? '')) return undefined;
    if (!/^https?:\/\//.test(this.text.slice(this.at, this.at + 8))) return undefined;
    const found = /^https?:\/\/[^\s<>"'`*()[\]]+/.exec(this.text.slice(this.at))?.[0];
    const href = found && safeHref(found.replace(/[.,;:!?]+$/, ''));
    if (!href || href.length < 'http://x'.length) return undefined;
    return {
      node: {kind: 'link', href, children: [{kind: 'text', text: href}]},
      end: this.at + href.length,
    };
  }

  private emphasis(): Span | undefined {
    if (this.depth >= maxDepth) return undefined;
    for (const {mark, kind} of delimiters) {
      if (!this.text.startsWith(mark, this.at) || this.hopeless.has(mark)) continue;
      const begin = this.at + mark.length;
      if (/^(\s|$)/.test(this.text[begin] ?? '')) continue;
      // snake_case is no emphasis.
      if (mark.startsWith('_') && /\w/.test(this.text[this.at - 1] ?? '')) continue;
      const end = this.closing(mark, begin);
      if (end === undefined) continue;
      return {
        node: {kind, children: this.nested(this.text.slice(begin, end))},
        end: end + mark.length,
      };
    }
    return undefined;
  }

  private closing(mark: string, begin: number): number | undefined {
    const char = mark[0] ?? '';
    for (let at = begin; at < this.text.length; at += 1) {
      if (this.text[at] === '`') {
        // What is in code closes nothing.
        const run = /^`+/.exec(this.text.slice(at, at + 16))?.[0] ?? '`';
        const end = this.text.indexOf(run, at + run.length);
        at = (end < 0 ? at : end) + run.length - 1;
        continue;
      }
      if (this.text[at] !== char) continue;
      let run = at;
      while (this.text[run] === char) run += 1;
      const length = run - at;
      const closes =
        at > begin &&
        !/\s/.test(this.text[at - 1] ?? '') &&
        (char !== '_' || !/\w/.test(this.text[run] ?? '')) &&
        (mark.length === 2 ? length >= 2 : length !== 2);
      // Of "***" the outer mark takes the last of them.
      if (closes) return run - mark.length;
      at = run - 1;
    }
    this.hopeless.add(mark);
    return undefined;
  }

  private nested(text: string): Inline[] {
    return parseInline(text, this.depth + 1);
  }
}
