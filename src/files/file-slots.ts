import { UnnamedFile } from "./unnamed-file.ts";

export interface SlotOptions {
  readonly directory: string;
  readonly slotBytes: number;
  readonly slotsMax: number;
}

/**
 * Slots of equal size in one unnamed file, so that any number of them takes one file descriptor. The file exists as long as any
 * slot is in use.
 */
export class FileSlots {
  private file: UnnamedFile | null = null;
  private readonly free: number[] = [];
  /** How many slots the file has room for. */
  private made = 0;
  private inUse = 0;

  constructor(private readonly options: SlotOptions) {}

  /** How many slots are in use. */
  get size(): number {
    return this.inUse;
  }

  /** Takes a free slot; null if there is none, or the file cannot be created. */
  take(): FileSlot | null {
    const { directory, slotBytes, slotsMax } = this.options;
    if (this.inUse >= slotsMax) return null;
    try {
      this.file ??= new UnnamedFile(directory);
    } catch {
      return null;
    }
    const index = this.free.pop() ?? this.made++;
    this.inUse++;
    return new FileSlot(this.file, index * slotBytes, slotBytes, () => this.release(index));
  }

  private release(index: number): void {
    this.free.push(index);
    this.inUse--;
    if (this.inUse > 0) return;
    this.file?.dispose();
    this.file = null;
    this.free.length = 0;
    this.made = 0;
  }
}

/** One slot of the file. It must be freed once. */
export class FileSlot {
  private busy = 0;
  private released = false;

  constructor(
    private readonly file: UnnamedFile,
    private readonly from: number,
    readonly bytesMax: number,
    private readonly release: () => void,
  ) {}

  /** Writes at the beginning of the slot. Resolves to whether that succeeded. */
  write(bytes: Uint8Array): Promise<boolean> {
    if (bytes.length > this.bytesMax) return Promise.resolve(false);
    return this.use(this.file.write(bytes, this.from)).then(
      () => true,
      () => false,
    );
  }

  /** Rejects if the bytes cannot be read. */
  read(at: number, length: number): Promise<Uint8Array> {
    return this.use(this.file.read(this.from + at, length));
  }

  /** Frees the slot once its pending reads and writes are done, so that they cannot hit the next owner. */
  free(): void {
    this.released = true;
    if (this.busy === 0) this.release();
  }

  private use<Result>(work: Promise<Result>): Promise<Result> {
    this.busy++;
    return work.finally(() => {
      this.busy--;
      if (this.released && this.busy === 0) this.release();
    });
  }
}
