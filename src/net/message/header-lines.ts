/** The first line and the headers of a message. They are few and looked up by few names, so a list is faster than a map. */
export class HeaderLines {
  constructor(
    /** The request line or the status line, without its line end. */
    readonly first: string,
    /** In lower case, each once. */
    readonly names: readonly string[],
    /** The values of repeated headers are joined by a comma (RFC 9110, 5.3). */
    private readonly values: readonly string[],
  ) {}

  get(name: string): string | undefined {
    const at = this.names.indexOf(name);
    return at < 0 ? undefined : this.values[at];
  }

  /** The same, for those who tell absence by null. */
  header(name: string): string | null {
    return this.get(name) ?? null;
  }

  has(name: string): boolean {
    return this.names.includes(name);
  }
}

export const noHeaders = new HeaderLines("", [], []);

/**
 * Whether the Connection header, which is a list (RFC 9110, 7.6.1), has this option: `not-close` is another option than `close`.
 */
export function hasConnectionOption(header: string | undefined, option: "close" | "keep-alive"): boolean {
  return header !== undefined && options[option].test(header);
}

const options = {
  close: /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i,
  "keep-alive": /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i,
};

/**
 * Replaces the characters that are not allowed in a field value, so that no value can start a header of its own (RFC 9110, 5.5).
 */
export function safeFieldValue(value: string, instead: "" | "?"): string {
  return unsafe.test(value) ? value.replace(/[^\t\x20-\x7e\x80-\xff]/g, instead) : value;
}

const unsafe = /[^\t\x20-\x7e\x80-\xff]/;
