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
