/**
 * A map with a limit on its size. If it is reached, the oldest entry is dropped, unless `isProtected` protects it; the number of protected
 * entries must be limited elsewhere. One iterator is kept for all insertions, because a new one would have to skip the gaps of deleted
 * entries each time.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  private oldest: MapIterator<Key> | null = null;

  constructor(
    private readonly entriesMax: number,
    /** Called for each dropped entry. */
    private readonly onEvict: (key: Key, value: Value) => void = () => {},
    private readonly isProtected: (key: Key) => boolean = () => false,
  ) {
    super();
  }

  override set(key: Key, value: Value): this {
    // A protected entry is not in place of another one. Where there are thousands of them, looking for one to drop would be in vain.
    if (this.size >= this.entriesMax && !this.has(key) && !this.isProtected(key)) this.evict();
    return super.set(key, value);
  }

  /** If many entries are protected, one insertion takes a limited number of steps. The next ones continue from there. */
  private evict(): void {
    for (let step = 0; step < stepsMax && this.size >= this.entriesMax; step += 1) {
      let next = this.oldest?.next();
      if (next === undefined || next.done === true) {
        this.oldest = this.keys();
        next = this.oldest.next();
      }
      if (next.done === true) return;
      if (this.isProtected(next.value)) continue;
      const value = this.get(next.value)!;
      this.delete(next.value);
      this.onEvict(next.value, value);
    }
  }
}

const stepsMax = 32;
