import { copiedBytesMax } from "./message-parser.ts";

/**
 * Parts of a body that wait for their reader. A part may be a single byte, and its object takes a hundred times that: small
 * parts are joined.
 */
export class PartQueue {
  /** How many bytes are queued. */
  bytes = 0;
  private parts: Uint8Array[] = [];
  /** Small parts at the end of the queue, joined. */
  private block: Uint8Array | null = null;
  private blockLength = 0;

  push(part: Uint8Array): void {
    this.bytes += part.length;
    const { block, parts } = this;
    if (block !== null && this.blockLength + part.length <= block.length) {
      block.set(part, this.blockLength);
      this.blockLength += part.length;
      return;
    }
    const full = this.takeBlock();
    if (full !== null) parts.push(full);
    if (parts.length === 0 || part.length > blockBytes / 4) return void parts.push(part);
    this.block = new Uint8Array(blockBytes);
    this.block.set(part);
    this.blockLength = part.length;
  }

  /** At most `bytesMax` of the oldest part; null if the queue is empty. */
  shift(bytesMax: number): Uint8Array | null {
    const part = this.parts.shift() ?? this.takeBlock();
    if (part === null) return null;
    const first = part.length > bytesMax ? part.subarray(0, bytesMax) : part;
    if (first !== part) this.parts.unshift(part.subarray(bytesMax));
    this.bytes -= first.length;
    return first;
  }

  /** All that is queued, if it is one part; else null. */
  sole(): Uint8Array | null {
    if (this.parts.length !== 1 || this.block !== null) return null;
    this.bytes = 0;
    return this.parts.pop()!;
  }

  /** The parts will not be read soon: copies them, so that they do not keep larger chunks alive. */
  detach(): void {
    this.parts = this.parts.map(detached);
  }

  private takeBlock(): Uint8Array | null {
    const { block } = this;
    this.block = null;
    return block === null ? null : block.subarray(0, this.blockLength);
  }
}

/** The same bytes in memory of their own. Small parts have their own already. */
export function detached(part: Uint8Array): Uint8Array {
  return part.length > copiedBytesMax ? new Uint8Array(part) : part;
}

const blockBytes = 4096;
