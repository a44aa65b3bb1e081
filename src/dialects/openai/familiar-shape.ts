import type { Output } from "../../operations/emission.ts";
import type { FamiliarDelta } from "../dialect.ts";
import { elementsOf, membersOf, scanJson, type JsonMember, type JsonSpan } from "../../operations/json.ts";

/**
 * The shape of an event that others will resemble. The deltas of a chat are the same to the byte but for their words, and
 * an event that is the same but for some plain strings says the same but for those strings: so it need not be parsed.
 */
export class FamiliarShape implements FamiliarDelta {
  /** Where the words of the event lie that was recognised last. */
  from = 0;
  to = 0;

  private constructor(
    /** The bytes between the strings that may differ, from the first of the frame to its last. */
    private readonly literals: readonly Uint8Array[],
    /** Which of those strings has the words. */
    private readonly words: number,
    readonly output: Output,
    readonly said: boolean,
  ) {}

  /**
   * Of a frame with one choice, where `key` of its delta has the words; null where that is not so plain. What else may differ
   * is a string that some upstreams add to hide how long the words are.
   */
  static of(frame: Uint8Array, key: string, output: Output): FamiliarShape | null {
    const body = frame.subarray(prefixLength, -suffixLength);
    const document = scanJson(body);
    if (!document.ok || document.kind !== "object") return null;
    const words = wordsIn(body, document.members, key);
    if (words === null) return null;
    const padding = document.members.filter((member) => member.key === "obfuscation");
    if (padding.length > 1) return null;
    const holes = [words, ...padding.filter(({ kind }) => kind === "string")].toSorted((one, other) => one.start - other.start);
    const literals: Uint8Array[] = [];
    let at = 0;
    for (const { start, end } of holes) {
      literals.push(frame.slice(at, prefixLength + start + 1));
      at = prefixLength + end - 1;
    }
    literals.push(frame.slice(at));
    return new FamiliarShape(literals, holes.indexOf(words), output, key === "content");
  }

  /** Where the frame ends that begins here and has this shape; 0 where none does. */
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

/** A character that stands for itself in a string, and is one byte. */
function isPlain(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x20 && byte < 0x7f && byte !== quote && byte !== backslash;
}

/** Every name on the way stands there once: what is read twice could be read in two ways. */
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
