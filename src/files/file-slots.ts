import { UnnamedFile } from "./unnamed-file.ts";

export interface SlotOptions {
  readonly directory: string;
  readonly slotBytes: number;
  readonly slotsMax: number;
}

/**
 * Places of one size in one file without a name, so that however many are in use take one descriptor. The file is there
 * for as long as any of them is.
 */
export class FileSlots {
  private file: UnnamedFile | null = null;
  private readonly free: number[] = [];
  /** How many places the file has had. */
  private made = 0;
  private inUse = 0;

  constructor(private readonly options: SlotOptions) {}

  /** How many places are in use. */
  get size(): number {
    return this.inUse;
  }

  /** A place of its own; null where there is none left, or no file can be made. */
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
    return new FileSlot(this.file, index * slotBytes, slotBytes, () => this.giveBack(index));
  }

  private giveBack(index: number): void {
    this.free.push(index);
    this.inUse--;
    if (this.inUse > 0) return;
    this.file?.dispose();
    this.file = null;
    this.free.length = 0;
    this.made = 0;
  }
}

/** One place in the file. Whoever has it gives it back once. */
export class FileSlot {
  private busy = 0;
  private givenBack = false;

  constructor(
    private readonly file: UnnamedFile,
    private readonly from: number,
    readonly bytesMax: number,
    private readonly giveBack: () => void,
  ) {}

  /** Puts bytes at its beginning. Returns whether they are there. */
  write(bytes: Uint8Array): Promise<boolean> {
    if (bytes.length > this.bytesMax) return Promise.resolve(false);
    return this.use(this.file.write(bytes, this.from)).then(
      () => true,
      () => false,
    );
  }

  /** Rejects where they cannot be read. */
  read(at: number, length: number): Promise<Uint8Array> {
    return this.use(this.file.read(this.from + at, length));
  }

  /** Gives it back when nothing of it is under way any more: until then its place could not be another's. */
  free(): void {
    this.givenBack = true;
    if (this.busy === 0) this.giveBack();
  }

  private use<Result>(work: Promise<Result>): Promise<Result> {
    this.busy++;
    return work.finally(() => {
      this.busy--;
      if (this.givenBack && this.busy === 0) this.giveBack();
    });
  }
}
