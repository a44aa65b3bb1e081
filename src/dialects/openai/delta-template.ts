import type { Output } from "../../operations/emission.ts";
import type { DeltaMatcher } from "../dialect.ts";
import { elementsOf, membersOf, scanJson, type JsonMember, type JsonSpan } from "../../operations/json.ts";

/**
 * The template of an event. The deltas of a chat are identical except for their text, so an event that differs from a parsed one only in
 * some plain strings need not be parsed.
 */
export class DeltaTemplate implements DeltaMatcher {
  /** Where the text of the last matching event lies. */
  from = 0;
  to = 0;

  private constructor(
    /** The bytes between the strings that may differ, over the whole frame. */
    private readonly literals: readonly Uint8Array[],
    /** The index of the string that is the text. */
    private readonly words: number,
    readonly output: Output,
    readonly isContent: boolean,
  ) {}

  /**
   * The template of a frame with one choice, where `key` of its delta is the text; null if the frame has another form. Only the padding
   * may differ as well, which some upstreams add to hide the length of the text.
   */
  static of(frame: Uint8Array, key: string, output: Output): DeltaTemplate | null {
    const body = frame.subarray(prefixLength, -suffixLength);
    const document = scanJson(body);
    if (!document.ok || document.kind !== "object") return null;
    const words = wordsIn(body, document.members, key);
    if (words === null) return null;
    const padding = document.members.filter((member) => member.key === "obfuscation");
    if (padding.length > 1) return null;
    const variableStrings = [words, ...padding.filter(({ kind }) => kind === "string")].toSorted((one, other) => one.start - other.start);
    const literals: Uint8Array[] = [];
    let at = 0;
    for (const { start, end } of variableStrings) {
      literals.push(frame.slice(at, prefixLength + start + 1));
      at = prefixLength + end - 1;
    }
    literals.push(frame.slice(at));
    return new DeltaTemplate(literals, variableStrings.indexOf(words), output, key === "content");
  }

  /** The end of the matching frame that begins at `start`; 0 if there is none. */
  end(bytes: Uint8Array, start: number): number {
    const { literals } = this;
    let at = start;
    for (let index = 0; index < literals.length; index++) {
      const literal = literals[index]!;
      if (at + literal.length > bytes.length || !isSame(bytes, at, literal)) return 0;
      at += literal.length;
      if (index === literals.length - 1) break;
      const from = at;
      while (isPlain(bytes[at])) at++;
      if (index !== this.words) continue;
      if (at === from) return 0;
      this.from = from;
      this.to = at;
    }
    return at;
  }
}

function isSame(bytes: Uint8Array, at: number, literal: Uint8Array): boolean {
  for (let index = 0; index < literal.length; index++) if (bytes[at + index] !== literal[index]) return false;
  return true;
}

/** An ASCII character that needs no escape in a JSON string. */
function isPlain(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x20 && byte < 0x7f && byte !== quote && byte !== backslash;
}

/** Every key on the path must occur once, because parsers differ on duplicates. */
function wordsIn(body: Uint8Array, members: readonly JsonMember[], key: string): JsonSpan | null {
  const choices = only(members, "choices");
  if (choices?.kind !== "array") return null;
  const all = elementsOf(body, choices.start, choices.end);
  const choice = all[0];
  if (all.length !== 1 || choice?.kind !== "object") return null;
  const delta = only(membersOf(body, choice.start, choice.end), "delta");
  if (delta?.kind !== "object") return null;
  const words = only(membersOf(body, delta.start, delta.end), key);
  return words?.kind === "string" ? words : null;
}

function only(members: readonly JsonMember[], key: string): JsonMember | null {
  const found = members.filter((member) => member.key === key);
  return found.length === 1 ? found[0]! : null;
}

const quote = 0x22;
const backslash = 0x5c;
const prefixLength = "data: ".length;
const suffixLength = 2;
