import type { FileSlot, FileSlots } from "../../files/file-slots.ts";
import { copiedBytesMax, release } from "../message/message-parser.ts";

/**
 * The unread rest of a chunk that arrived faster than it is read. It is in memory, or in a file if its reader is slow. Its
 * memory is freed explicitly: while clients stall, nothing is allocated, and the garbage collector does not run.
 */
export class Backlog {
  /** A reader still uses a view of the chunk, so its memory must be left to the garbage collector. */
  isShared = false;
  /** The position in the chunk of the next unread byte. */
  private at = 0;
  private end: number;
  private chunk: Buffer | null;
  private slot: FileSlot | null = null;
  /** The position in the chunk of the first byte that is in the file. */
  private slotStart = 0;
  private isSpilling = false;

  constructor(
    chunk: Buffer,
    /** How much of the chunk counts. */
    length: number,
    /** Called when it has been written to a file. */
    private readonly onSpilled: () => void = () => {},
  ) {
    this.chunk = chunk;
    this.end = length;
  }

  get length(): number {
    return this.end - this.at;
  }

  /** How much memory it holds, however little of it is unread. */
  get heldBytes(): number {
    return this.chunk?.length ?? 0;
  }

  /**
   * The next bytes: a view of the chunk, which is valid until the next call unless it is shared, or bytes read back from the
   * file. Few bytes are a copy: readers take small parts for copies, and keep them. Rejects if they cannot be read back.
   */
  take(bytesMax: number): Buffer | Promise<Buffer> {
    const { at, slot, chunk } = this;
    const length = Math.min(bytesMax, this.length);
    this.at += length;
    if (chunk === null) return this.readBack(slot!, at - this.slotStart, length);
    const part = chunk.subarray(at, at + length);
    return length > copiedBytesMax ? part : Buffer.from(part);
  }

  /** Writes the unread rest to a file. If that fails, it stays in memory. */
  async spill(slots: FileSlots): Promise<void> {
    const { at, chunk } = this;
    const slot = chunk === null || this.isSpilling || this.length === 0 ? null : slots.take();
    if (chunk === null || slot === null) return;
    this.isSpilling = true;
    const isWritten = await slot.write(chunk.subarray(at, this.end));
    this.isSpilling = false;
    if (!isWritten || this.length === 0) {
      slot.free();
      if (this.length === 0) this.freeChunk();
      return;
    }
    this.slot = slot;
    this.slotStart = at;
    this.onSpilled();
    this.freeChunk();
  }

  /** Copies the rest, so that it holds no more memory than it needs. */
  shrink(): void {
    const { chunk } = this;
    if (chunk === null || this.isSpilling) return;
    const left = Buffer.allocUnsafeSlow(this.length);
    chunk.copy(left, 0, this.at, this.end);
    this.freeChunk();
    this.chunk = left;
    this.end -= this.at;
    this.at = 0;
    this.isShared = false;
  }

  /** The rest will not be read. */
  drop(): void {
    this.at = this.end;
    this.slot?.free();
    this.slot = null;
    this.freeChunk();
  }

  private async readBack(slot: FileSlot, at: number, length: number): Promise<Buffer> {
    const { buffer, byteLength } = await slot.read(at, length);
    if (byteLength < length) throw new Error("a file is shorter than it was");
    if (this.length === 0 && this.slot !== null) this.drop();
    return Buffer.from(buffer as ArrayBuffer);
  }

  /** Frees the memory, unless it is still being written to the file. */
  private freeChunk(): void {
    const { chunk } = this;
    if (chunk === null || this.isSpilling) return;
    this.chunk = null;
    if (!this.isShared) release(chunk);
  }
}
