import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { elementsOf, lastMember, membersOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";

/**
 * The inputs of tool calls as the client wrote them, without white space. Parsed and printed they would lose the digits of large numbers,
 * and the order of keys that look like numbers; and a prompt cache finds a call again only if every byte of it is as before.
 */
export class ToolInputs {
  private messages: readonly JsonSpan[] | null = null;
  private blocks: readonly JsonSpan[] = [];
  private message = -1;

  constructor(private readonly request: ChatRequest) {}

  /** Of a block of a message, both by their number. An input that is not an object is an empty one. */
  json(message: number, block: number): string {
    if (message !== this.message) {
      this.blocks = this.blocksOf(message);
      this.message = message;
    }
    const input = this.member(this.blocks[block], "input");
    return input?.kind === "object" ? compacted(this.request.body, input) : "{}";
  }

  private blocksOf(message: number): readonly JsonSpan[] {
    this.messages ??= this.elements(lastMember(this.request.members, "messages"));
    return this.elements(this.member(this.messages[message], "content"));
  }

  private elements(list: JsonSpan | undefined): readonly JsonSpan[] {
    return list?.kind === "array" ? elementsOf(this.request.body, list.start, list.end) : [];
  }

  private member(object: JsonSpan | undefined, key: string): JsonMember | undefined {
    return object?.kind === "object" ? lastMember(membersOf(this.request.body, object.start, object.end), key) : undefined;
  }
}

/** A JSON value without the white space between its tokens. */
function compacted(bytes: Uint8Array, { start, end }: JsonSpan): string {
  const kept = new Uint8Array(end - start);
  let length = 0;
  let inString = false;
  for (let at = start; at < end; at++) {
    const byte = bytes[at]!;
    if (!inString && byte <= space) continue;
    kept[length++] = byte;
    if (byte === quote) inString = !inString;
    else if (byte === backslash) kept[length++] = bytes[++at]!;
  }
  return decoder.decode(kept.subarray(0, length));
}

const space = 0x20;
const quote = 0x22;
const backslash = 0x5c;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
