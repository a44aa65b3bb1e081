/**
 * A table with a bound: where it is reached, the entry that was added first makes room, unless it is one to keep: those are
 * passed over, and their number has to be bounded by something else. One walk through the table serves
 * all newcomers, since each of its own would have to pass over the gaps that those before it left.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  private eldest: MapIterator<Key> | null = null;

  constructor(
    private readonly entriesMax: number,
    /** Is told of whoever had to go. */
    private readonly gone: (key: Key, value: Value) => void = () => {},
    private readonly keeps: (key: Key) => boolean = () => false,
  ) {
    super();
  }

  override set(key: Key, value: Value): this {
    if (this.size >= this.entriesMax && !this.has(key)) this.makeRoom();
    return super.set(key, value);
  }

  /** Where many are kept, a newcomer costs some steps and not all of them: the next ones go on from there, and catch up. */
  private makeRoom(): void {
    for (let step = 0; step < stepsMax && this.size >= this.entriesMax; step += 1) {
      let next = this.eldest?.next();
      if (next === undefined || next.done === true) {
        this.eldest = this.keys();
        next = this.eldest.next();
      }
      if (next.done === true) return;
      if (this.keeps(next.value)) continue;
      const value = this.get(next.value)!;
      this.delete(next.value);
      this.gone(next.value, value);
    }
  }
}

const stepsMax = 32;
