import type { FileSlot, FileSlots } from "../../files/file-slots.ts";
import { release } from "../message/message-parser.ts";

/**
 * What is left of a chunk that came faster than it is read. It is in memory, or in a file for a reader that is slow. Its
 * memory is given back at once, not when the collector comes to it: where clients stall nothing calls the collector.
 */
export class Backlog {
  /** Somebody else looks at what was given of it: its memory is the collector's. */
  isShared = false;
  /** Where in the chunk the part begins that is still to be read. */
  private at = 0;
  private end: number;
  private chunk: Buffer | null;
  private slot: FileSlot | null = null;
  /** Where in the chunk its part in the file begins. */
  private slotAt = 0;
  private isMoving = false;

  constructor(
    chunk: Buffer,
    /** Of the chunk, as much as is meant. */
    length: number,
    /** It has been moved into a file. */
    private readonly moved: () => void = () => {},
  ) {
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

  /** The next bytes: a view of the chunk, good until more is taken unless it is shared, or what is read back. Rejects where it cannot be. */
  take(bytesMax: number): Buffer | Promise<Buffer> {
    const { at, slot, chunk } = this;
    const length = Math.min(bytesMax, this.length);
    this.at += length;
    return chunk === null ? this.readBack(slot!, at - this.slotAt, length) : chunk.subarray(at, at + length);
  }

  /** Moves what is left into a file. Where that cannot be, it stays where it is. */
  async park(slots: FileSlots): Promise<void> {
    const { at, chunk } = this;
    const slot = chunk === null || this.isMoving || this.length === 0 ? null : slots.take();
    if (chunk === null || slot === null) return;
    this.isMoving = true;
    const isThere = await slot.write(chunk.subarray(at, this.end));
    this.isMoving = false;
    if (!isThere || this.length === 0) {
      slot.free();
      if (this.length === 0) this.letGo();
      return;
    }
    this.slot = slot;
    this.slotAt = at;
    this.moved();
    this.letGo();
  }

  /** Keeps no more memory than is left. */
  shrink(): void {
    const { chunk } = this;
    if (chunk === null || this.isMoving) return;
    const left = Buffer.allocUnsafeSlow(this.length);
    chunk.copy(left, 0, this.at, this.end);
    this.letGo();
    this.chunk = left;
    this.end -= this.at;
    this.at = 0;
    this.isShared = false;
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
    if (this.length === 0 && this.slot !== null) this.drop();
    return Buffer.from(buffer as ArrayBuffer);
  }

  /** Gives back its memory, unless the system still reads it. */
  private letGo(): void {
    const { chunk } = this;
    if (chunk === null || this.isMoving) return;
    this.chunk = null;
    if (!this.isShared) release(chunk);
  }
}
