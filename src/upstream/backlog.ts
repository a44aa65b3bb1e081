import type { FileSlot, FileSlots } from "../files/file-slots.ts";
import { release } from "../wire/released.ts";

/**
 * What is left of a chunk that came faster than it is read. It is in memory, or in a file for a reader that is slow. Its
 * memory is given back at once, not when the collector comes to it: where clients stall nothing calls the collector.
 */
export class Backlog {
  /** Where in the chunk the part begins that is still to be read. */
  private at = 0;
  private end: number;
  private chunk: Buffer | null;
  private slot: FileSlot | null = null;
  /** Where in the chunk its part in the file begins. */
  private slotAt = 0;
  private isMoving = false;

  /** The chunk, which is nobody else's, up to its first `length` bytes. */
  constructor(chunk: Buffer, length: number) {
    this.chunk = chunk;
    this.end = length;
  }

  get length(): number {
    return this.end - this.at;
  }

  /** How much memory it keeps, however little of it is left. */
  get heldBytes(): number {
    return this.chunk?.length ?? 0;
  }

  /** The next bytes, in memory of their own: at once, or when they are read back. Rejects where they cannot be. */
  take(bytesMax: number): Buffer | Promise<Buffer> {
    const { at, slot, chunk } = this;
    const length = Math.min(bytesMax, this.length);
    this.at += length;
    if (chunk === null) return this.readBack(slot!, at - this.slotAt, length);
    const bytes = copyOf(chunk, at, at + length);
    this.letGo();
    return bytes;
  }

  /** Moves what is left into a file. Where that cannot be, it stays where it is. */
  async park(slots: FileSlots): Promise<void> {
    const { at, chunk } = this;
    const slot = chunk === null || this.isMoving || this.length === 0 ? null : slots.take();
    if (chunk === null || slot === null) return;
    this.isMoving = true;
    const isThere = await slot.write(chunk.subarray(at, this.end));
    this.isMoving = false;
    if (isThere && this.length > 0) {
      this.slot = slot;
      this.slotAt = at;
      this.chunk = null;
      release(chunk);
    } else {
      slot.free();
      this.letGo();
    }
  }

  /** Keeps no more memory than is left. */
  shrink(): void {
    const { chunk } = this;
    if (chunk === null || this.isMoving) return;
    this.chunk = copyOf(chunk, this.at, this.end);
    this.end -= this.at;
    this.at = 0;
    release(chunk);
  }

  /** Nobody will read the rest. */
  drop(): void {
    this.at = this.end;
    this.slot?.free();
    this.slot = null;
    this.letGo();
  }

  private async readBack(slot: FileSlot, at: number, length: number): Promise<Buffer> {
    const { buffer, byteLength } = await slot.read(at, length);
    if (byteLength < length) throw new Error("a file is shorter than it was");
    const bytes = Buffer.from(buffer as ArrayBuffer);
    if (this.length === 0 && this.slot !== null) this.drop();
    return bytes;
  }

  /** Gives back the memory of what was read, unless the system still looks at it. */
  private letGo(): void {
    const { chunk } = this;
    if (this.length > 0 || chunk === null || this.isMoving) return;
    this.chunk = null;
    release(chunk);
  }
}

function copyOf(chunk: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafeSlow(to - from);
  chunk.copy(copy, 0, from, to);
  return copy;
}
