import { markdownBlocks, type MarkdownBlock, type MarkdownSpan } from "../core/markdown.ts";

/** What a model wrote. All of it becomes text nodes: there is no HTML, no link and no image in it. */
export function Markdown({ text }: { readonly text: string }) {
  return (
    <div class="turn written">
      {markdownBlocks(text).map((block, at) => (
        <Block key={at} block={block} />
      ))}
    </div>
  );
}

function Block({ block }: { readonly block: MarkdownBlock }) {
  switch (block.kind) {
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{block.text}</code>
        </pre>
      );
    case "heading":
      return (
        <p>
          <strong>{spansOf(block.spans)}</strong>
        </p>
      );
    case "list": {
      const items = block.items.map((item, at) => <li key={at}>{spansOf(item)}</li>);
      return block.ordered ? <ol>{items}</ol> : <ul>{items}</ul>;
    }
    case "text":
      return <p>{spansOf(block.spans)}</p>;
  }
}

function spansOf(spans: readonly MarkdownSpan[]) {
  return spans.map(({ kind, text }, at) => {
    switch (kind) {
      case "strong":
        return <strong key={at}>{text}</strong>;
      case "emphasis":
        return <em key={at}>{text}</em>;
      case "code":
        return <code key={at}>{text}</code>;
      case "plain":
        return text;
    }
  });
}
