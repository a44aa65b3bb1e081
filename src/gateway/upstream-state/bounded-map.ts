/**
 * A map with a limit on its size. If it is reached, the oldest entry is dropped, unless `keeps` protects it; the number of protected
 * entries must be limited elsewhere. One iterator is kept for all insertions, because a new one would have to skip the gaps of deleted
 * entries each time.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  private eldest: MapIterator<Key> | null = null;

  constructor(
    private readonly entriesMax: number,
    /** Called for each dropped entry. */
    private readonly gone: (key: Key, value: Value) => void = () => {},
    private readonly keeps: (key: Key) => boolean = () => false,
  ) {
    super();
  }

  override set(key: Key, value: Value): this {
    if (this.size >= this.entriesMax && !this.has(key)) this.makeRoom();
    return super.set(key, value);
  }

  /** If many entries are protected, one insertion takes a limited number of steps. The next ones continue from there. */
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
