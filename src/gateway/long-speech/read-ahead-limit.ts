/** Counts the audio that is held in memory for one call. Above the limit, nothing more is read ahead. */
export class ReadAheadLimit {
  private bytes = 0;
  private waiting: (() => void)[] = [];

  get isFull(): boolean {
    return this.bytes >= heldBytesMax;
  }

  add(bytes: number): void {
    this.bytes += bytes;
  }

  remove(bytes: number): void {
    this.bytes -= bytes;
    if (!this.isFull) this.wake();
  }

  /** Resolves when there may be room again, or when a reader should check for another reason. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  wake(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

export const heldBytesMax = 4 * 1024 * 1024;
