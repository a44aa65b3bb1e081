/** The head of a message. Its headers are few, and asked for by few names, so that a list is quicker than a table. */
export class HeaderLines {
  constructor(
    /** Of the request, or of the status; without its line end. */
    readonly first: string,
    /** In lower case, each once. */
    readonly names: readonly string[],
    /** Repeated headers are joined by a comma. */
    private readonly values: readonly string[],
  ) {}

  get(name: string): string | undefined {
    const at = this.names.indexOf(name);
    return at < 0 ? undefined : this.values[at];
  }

  has(name: string): boolean {
    return this.names.includes(name);
  }
}

/** Whether the Connection header has this option, which is one of a list: `not-close` is another one than `close`. */
export function hasConnectionOption(header: string | undefined, option: "close" | "keep-alive"): boolean {
  return header !== undefined && options[option].test(header);
}

const options = {
  close: /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i,
  "keep-alive": /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i,
};

/** No value, whoever it comes from, may begin a header of its own: what cannot stand in one is replaced. */
export function oneLine(value: string, instead: "" | "?"): string {
  return unsafe.test(value) ? value.replace(/[^\t\x20-\x7e\x80-\xff]/g, instead) : value;
}

const unsafe = /[^\t\x20-\x7e\x80-\xff]/;
