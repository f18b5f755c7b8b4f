// Markdown as elements. No HTML is ever made of text: a model can show markup, not use it.
import type {JSX} from 'preact';
import {useMemo} from 'preact/hooks';
import {CopyButton} from '../copy_button';
import {parseMarkdown, type Block} from './blocks';
import type {Inline} from './inline';

export function Markdown({text}: {text: string}) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return <div class="markdown">{blocks.map(block)}</div>;
}

function block(node: Block, index: number): JSX.Element {
  switch (node.kind) {
    case 'paragraph':
      return <p key={index}>{node.children.map(inline)}</p>;
    case 'heading': {
      // The page's own headings stand above those of an answer.
      const Tag = `h${Math.min(6, node.level + 2)}` as 'h3';
      return <Tag key={index}>{node.children.map(inline)}</Tag>;
    }
    case 'code':
      return (
        <figure class="code" key={index}>
          <figcaption>
            <span>{node.language || 'text'}</span>
            <CopyButton text={node.text} label="Copy code" />
          </figcaption>
          <pre tabIndex={0}>
            <code>{node.text}</code>
          </pre>
        </figure>
      );
    case 'list': {
      const items = node.items.map((item, i) => <li key={i}>{item.map(block)}</li>);
      return node.start === undefined ? (
        <ul key={index}>{items}</ul>
      ) : (
        <ol key={index} start={node.start}>
          {items}
        </ol>
      );
    }
    case 'quote':
      return <blockquote key={index}>{node.children.map(block)}</blockquote>;
    case 'rule':
      return <hr key={index} />;
    case 'table':
      return (
        <div class="scroll" key={index}>
          <table>
            <thead>
              <tr>
                {node.head.map((cell, i) => (
                  <th key={i} class={node.align[i]}>
                    {cell.map(inline)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {node.rows.map((row, r) => (
                <tr key={r}>
                  {row.map((cell, i) => (
                    <td key={i} class={node.align[i]}>
                      {cell.map(inline)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
  }
}

function inline(node: Inline, index: number): JSX.Element | string {
  switch (node.kind) {
    case 'text':
      return node.text;
    case 'code':
      return <code key={index}>{node.text}</code>;
    case 'strong':
      return <strong key={index}>{node.children.map(inline)}</strong>;
    case 'em':
      return <em key={index}>{node.children.map(inline)}</em>;
    case 'del':
      return <del key={index}>{node.children.map(inline)}</del>;
    case 'link':
      return (
        <a key={index} href={node.href} target="_blank" rel="noopener noreferrer nofollow">
          {node.children.map(inline)}
        </a>
      );
    case 'break':
      return <br key={index} />;
  }
}
