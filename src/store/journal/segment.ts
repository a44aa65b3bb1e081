import { closeSync, fdatasync, fstatSync, openSync, writeSync } from "node:fs";

/**
 * One file of a journal, written from its beginning to its end. It always knows how far it got: what the disk took only a part
 * of is continued right there, and what failed without a word on how much of it was taken is written over.
 */
export class Segment {
  private readonly file: number;
  private writtenBytes = 0;
  private closing = false;
  private syncing = 0;

  constructor(
    readonly number: number,
    path: string,
  ) {
    this.file = openSync(path, "wx", 0o600);
  }

  get bytes(): number {
    return this.writtenBytes;
  }

  /** Nobody could find what is written into it any more. */
  get isGone(): boolean {
    return fstatSync(this.file).nlink === 0;
  }

  /** Returns how many bytes the disk took, which may be fewer; throws where it refused. */
  write(bytes: Buffer, from: number, to: number): number {
    const wrote = writeSync(this.file, bytes, from, to - from, this.writtenBytes);
    this.writtenBytes += wrote;
    return wrote;
  }

  /** Resolves when what was written so far would survive the loss of power, with what went wrong or null. */
  sync(): Promise<Error | null> {
    this.syncing += 1;
    return new Promise((resolve) => {
      fdatasync(this.file, (error) => {
        this.syncing -= 1;
        this.closeIfDone();
        resolve(error);
      });
    });
  }

  close(): void {
    this.closing = true;
    this.closeIfDone();
  }

  private closeIfDone(): void {
    if (this.closing && this.syncing === 0) closeSync(this.file);
  }
}
