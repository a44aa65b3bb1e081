/**
 * The text of a chunk around its words. The chunks of a stream are mostly the same but for their words, and one that is needs no
 * parsing: that takes 0.3 us, where the comparison takes less than 0.1.
 */
export class RepeatedChunk {
  private constructor(
    private readonly head: string,
    private readonly tail: string,
    /** Random characters follow the tail, which some upstreams send to hide how long the words are. */
    private readonly isPadded: boolean,
  ) {}

  /**
   * Of a valid chunk with these words; null if it is not certain where they are. `wordsIn` parses a chunk: if the words change with a
   * text between two quotes, they are exactly that text, and nothing else in the chunk depends on it.
   */
  static of(data: string, words: string, wordsIn: (data: string) => string | null): RepeatedChunk | null {
    const at = data.indexOf(`"${words}"`, data.indexOf('"delta"')) + 1;
    if (at === 0 || !isPlain(words, 0, words.length)) return null;
    const head = data.slice(0, at);
    const rest = data.slice(at + words.length);
    const other = `${words}?`;
    if (wordsIn(head + other + rest) !== other) return null;
    const paddingAt = rest.search(padding) + paddingKey.length;
    return paddingAt < paddingKey.length ? new RepeatedChunk(head, rest, false) : new RepeatedChunk(head, rest.slice(0, paddingAt), true);
  }

  /** The words of a chunk that is the same but for them; null if it is not, or has none. */
  wordsIn(data: string): string | null {
    const { head, tail } = this;
    if (!data.startsWith(head)) return null;
    const end = data.indexOf('"', head.length);
    if (end <= head.length || !data.startsWith(tail, end) || !this.endsAt(data, end + tail.length)) return null;
    return isPlain(data, head.length, end) ? data.slice(head.length, end) : null;
  }

  private endsAt(data: string, at: number): boolean {
    return this.isPadded ? paddingEnd.test(data.slice(at)) : at === data.length;
  }
}

/** Whether a part of a text means itself between quotes: JSON has no control characters in strings (RFC 8259, 7). */
function isPlain(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || code === quote || code === backslash) return false;
  }
  return true;
}

const quote = 0x22;
const backslash = 0x5c;
const paddingKey = '"obfuscation":"';
const padding = /"obfuscation":"[A-Za-z0-9]*"\}$/;
const paddingEnd = /^[A-Za-z0-9]*"\}$/;
