/**
 * A table with a bound: where it is reached, the entry that was added first makes room. One walk through the table serves
 * all newcomers, since each of its own would have to pass over the gaps that those before it left.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  private eldest: MapIterator<Key> | null = null;

  constructor(
    private readonly entriesMax: number,
    /** Is told of whoever had to go. */
    private readonly gone: (key: Key, value: Value) => void = () => {},
  ) {
    super();
  }

  override set(key: Key, value: Value): this {
    if (this.size >= this.entriesMax && !this.has(key)) this.makeRoom();
    return super.set(key, value);
  }

  private makeRoom(): void {
    let next = this.eldest?.next();
    if (next === undefined || next.done === true) {
      this.eldest = this.keys();
      next = this.eldest.next();
    }
    if (next.done === true) return;
    const value = this.get(next.value)!;
    this.delete(next.value);
    this.gone(next.value, value);
  }
}
