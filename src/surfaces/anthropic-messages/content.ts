import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import {
  returnedValue,
  type CacheMarker,
  type FilePart,
  type ImagePart,
  type MediaSource,
  type Part,
  type ReasoningPart,
  type TextPart,
  type ToolCallPart,
  type ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import type { JsonObject } from "../../operations/json.ts";
import type { FieldReader } from "../field-reader.ts";
import { ToolInputs } from "./tool-inputs.ts";
import type { Uncarried } from "../uncarried.ts";

/** Whose signatures and citations come back through this API, unless they are the gateway's own. */
export const ownDialect = "anthropic";

/** What a turn of the user and the result of a tool may hold. */
type MediaPart = TextPart | ImagePart | FilePart;

interface ContentBlock {
  readonly type: string;
  readonly fields: JsonObject;
  readonly index: number;
  readonly path: string;
}

/** Reads the content of messages, block by block. */
export class ContentReader {
  private readonly inputs: ToolInputs;

  constructor(
    request: ChatRequest,
    private readonly fields: FieldReader,
    private readonly uncarried: Uncarried,
  ) {
    this.inputs = new ToolInputs(request);
  }

  system(content: unknown, path: string): readonly TextPart[] {
    return this.blocks(content, path).flatMap((block): readonly TextPart[] =>
      block.type === "text" ? [this.text(block)] : this.misplaced(block, "a system prompt"),
    );
  }

  /** The results of tools apart from the rest. Upstreams refuse two results of one call: the last one counts. */
  user(content: unknown, path: string): { readonly results: readonly ToolResultPart[]; readonly parts: readonly MediaPart[] } {
    const results = new Map<string, ToolResultPart>();
    const parts: MediaPart[] = [];
    for (const block of this.blocks(content, path)) {
      if (block.type === "tool_result") {
        const result = this.toolResult(block);
        results.delete(result.callId);
        results.set(result.callId, result);
      } else parts.push(...(this.media(block) ?? this.misplaced(block, "a user message")));
    }
    return { results: [...results.values()], parts };
  }

  /** `message` is the number of the message in the request. */
  assistant(content: unknown, message: number, path: string): readonly Part[] {
    return this.blocks(content, path).flatMap((block): readonly Part[] => {
      switch (block.type) {
        case "tool_use":
          return [this.toolCall(block, message)];
        case "thinking":
        case "redacted_thinking":
          return [this.reasoning(block)];
        default:
          return this.media(block) ?? this.misplaced(block, "an assistant message");
      }
    });
  }

  /** A string stands for one block of text. */
  private blocks(content: unknown, path: string): readonly ContentBlock[] {
    if (typeof content === "string") return [{ type: "text", fields: { text: content }, index: 0, path }];
    const blocks: ContentBlock[] = [];
    for (const [index, value] of this.fields.list(content, path).entries()) {
      const place = `${path}.${index}`;
      const block = this.fields.object(value, place);
      const type = this.fields.text(block["type"], `${place}.type`);
      if (this.fields.mistake !== null) return [];
      blocks.push({ type, fields: block, index, path: place });
    }
    return blocks;
  }

  /** Null where the block is none of them. */
  private media(block: ContentBlock): readonly MediaPart[] | null {
    switch (block.type) {
      case "text":
        return [this.text(block)];
      case "image":
        return [this.image(block)];
      case "document":
        return this.document(block);
      case "search_result":
        return [this.searchResult(block)];
      default:
        return null;
    }
  }

  private text(block: ContentBlock): TextPart {
    const citations = this.fields.optionalList(block.fields["citations"], `${block.path}.citations`);
    return {
      kind: "text",
      text: this.fields.text(block.fields["text"], `${block.path}.text`),
      ...this.cache(block),
      ...(citations.length === 0 ? undefined : { citations: { dialect: ownDialect, data: JSON.stringify(citations) } }),
    };
  }

  private image(block: ContentBlock): ImagePart {
    const path = `${block.path}.source`;
    return { kind: "image", source: this.source(this.fields.object(block.fields["source"], path), path), ...this.cache(block) };
  }

  private document(block: ContentBlock): readonly MediaPart[] {
    const path = `${block.path}.source`;
    const name = this.fields.optionalText(block.fields["title"], `${block.path}.title`);
    for (const key of documentHints) if (isSet(block.fields[key])) this.uncarried.add(`messages.content.document.${key}`);
    const source = this.fields.object(block.fields["source"], path);
    if (source["type"] === "content") return this.documentContent(block, source, name);
    return [{ kind: "file", source: this.source(source, path), name, ...this.cache(block) }];
  }

  /** A document of blocks. Texts that follow one another are one file; an image among them stands for itself. */
  private documentContent(block: ContentBlock, source: JsonObject, name: string | null): readonly MediaPart[] {
    const parts: (ImagePart | FilePart)[] = [];
    let texts: string[] = [];
    const endFile = (): void => {
      if (texts.length > 0) parts.push({ kind: "file", source: { kind: "text", text: texts.join("\n") }, name });
      texts = [];
    };
    for (const inner of this.blocks(source["content"], `${block.path}.source.content`)) {
      if (inner.type === "text") texts.push(this.text(inner).text);
      else if (inner.type === "image") {
        endFile();
        parts.push(this.image(inner));
      } else this.misplaced(inner, "a document");
    }
    endFile();
    const last = parts.pop();
    return last === undefined ? [] : [...parts, { ...last, ...this.cache(block) }];
  }

  /** Something that was found, as a file of text: where it was found comes first. */
  private searchResult(block: ContentBlock): FilePart {
    const { fields, path } = block;
    const texts = this.blocks(fields["content"], `${path}.content`).map((inner) =>
      inner.type === "text" ? this.text(inner).text : this.misplaced(inner, "a search result").join(""),
    );
    const text = [this.fields.text(fields["source"], `${path}.source`), ...texts].join("\n");
    return { kind: "file", source: { kind: "text", text }, name: this.fields.text(fields["title"], `${path}.title`), ...this.cache(block) };
  }

  private source(source: JsonObject, path: string): MediaSource {
    const type = this.fields.text(source["type"], `${path}.type`);
    switch (type) {
      case "base64":
        return {
          kind: "data",
          mediaType: this.fields.name(source["media_type"], `${path}.media_type`),
          data: this.fields.name(source["data"], `${path}.data`),
        };
      case "url":
        return { kind: "url", url: this.fields.name(source["url"], `${path}.url`) };
      case "file":
        return { kind: "id", id: this.fields.name(source["file_id"], `${path}.file_id`) };
      case "text":
        return { kind: "text", text: this.fields.text(source["data"], `${path}.data`) };
      default:
        this.fields.invalid(`${path}.type`, `'${path}.type' is not a known kind of source.`);
        return { kind: "text", text: "" };
    }
  }

  private toolResult(block: ContentBlock): ToolResultPart {
    const { fields, path } = block;
    const content = fields["content"] ?? [];
    return {
      kind: "tool_result",
      callId: this.fields.text(fields["tool_use_id"], `${path}.tool_use_id`),
      content: this.blocks(content, `${path}.content`).flatMap((inner): readonly MediaPart[] => {
        // The name of a tool that was looked for and found. It is declared in any case.
        if (inner.type === "tool_reference") {
          return [{ kind: "text", text: this.fields.text(inner.fields["tool_name"], `${inner.path}.tool_name`) }];
        }
        return this.media(inner) ?? this.misplaced(inner, "the result of a tool");
      }),
      isError: this.fields.optionalBoolean(fields["is_error"], `${path}.is_error`) ?? false,
      ...this.cache(block),
    };
  }

  private toolCall(block: ContentBlock, message: number): ToolCallPart {
    const { fields, path, index } = block;
    this.fields.object(fields["input"], `${path}.input`);
    return {
      kind: "tool_call",
      id: this.fields.text(fields["id"], `${path}.id`),
      name: this.fields.name(fields["name"], `${path}.name`),
      arguments: this.fields.mistake === null ? this.inputs.json(message, index) : "{}",
      ...this.cache(block),
    };
  }

  private reasoning({ type, fields, path }: ContentBlock): ReasoningPart {
    if (type === "redacted_thinking") {
      const data = this.fields.name(fields["data"], `${path}.data`);
      return { kind: "reasoning", text: "", signature: returnedValue(data, ownDialect), redacted: true };
    }
    const text = this.fields.text(fields["thinking"], `${path}.thinking`);
    // Reasoning that nobody signed was answered with an empty signature, and comes back with it.
    const signature = this.fields.optionalText(fields["signature"], `${path}.signature`) ?? "";
    return { kind: "reasoning", text, signature: signature === "" ? null : returnedValue(signature, ownDialect) };
  }

  private cache(block: ContentBlock): { readonly cache: CacheMarker } | undefined {
    const cache = cacheMarker(block.fields["cache_control"], `${block.path}.cache_control`, this.fields);
    return cache === null ? undefined : { cache };
  }

  /** A block that cannot be carried is reported; one that does not belong here, or that nobody knows, is a mistake. */
  private misplaced({ type, path }: ContentBlock, place: string): readonly never[] {
    if (hostedBlock.test(type)) this.uncarried.add(`messages.content.${type}`);
    else {
      const shown = /^\w{1,64}$/.test(type) ? `'${type}'` : "one of this type";
      this.fields.invalid(`${path}.type`, `'${path}' cannot be ${shown}: ${place} has no such block.`);
    }
    return [];
  }
}

/** What tools of the upstream, and the upstream itself, wrote into the conversation. */
const hostedBlock = /^\w+_tool_(?:use|result)$|^(?:container_upload|compaction|fallback|browser_state)$/;

const documentHints = ["context", "citations"] as const;

/** An object counts where it switches something on: `{"enabled": false}` says nothing. */
function isSet(value: unknown): boolean {
  if (typeof value === "object" && value !== null && "enabled" in value) return value.enabled === true;
  return value != null;
}

/** Null where there is none. */
export function cacheMarker(value: unknown, path: string, fields: FieldReader): CacheMarker | null {
  const control = fields.optionalObject(value, path);
  if (control === null) return null;
  return { ttl: fields.optionalChoice(control["ttl"], ["5m", "1h"], `${path}.ttl`) };
}
