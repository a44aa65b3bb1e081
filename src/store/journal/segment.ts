import { closeSync, fdatasync, fstatSync, openSync, writeSync } from "node:fs";

/**
 * One append-only file of a journal. It tracks its own write offset: after a short write the next one continues there, and after
 * a failed write, which may have written some bytes, the next one overwrites them.
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

  /** The file was deleted, so that nobody could read what is written to it. */
  get isGone(): boolean {
    return fstatSync(this.file).nlink === 0;
  }

  /** Returns how many bytes were written, which may be fewer than given. Throws if the write fails. */
  write(bytes: Buffer, from: number, to: number): number {
    const wrote = writeSync(this.file, bytes, from, to - from, this.writtenBytes);
    this.writtenBytes += wrote;
    return wrote;
  }

  /** Resolves when what was written so far survives a power failure, with the error or null. */
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
