import { copiedBytesMax } from "../message/message-parser.ts";

/** Parts of a body that wait for their reader. A part may be a single byte, and costs a hundred times that: small ones are put together. */
export class PartQueue {
  /** How much waits. */
  bytes = 0;
  private parts: Uint8Array[] = [];
  /** Small parts behind the others, put together. */
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
    const full = this.sealed();
    if (full !== null) parts.push(full);
    if (parts.length === 0 || part.length > blockBytes / 4) return void parts.push(part);
    this.block = new Uint8Array(blockBytes);
    this.block.set(part);
    this.blockLength = part.length;
  }

  /** What waits longest, and not more of it than that; null where nothing waits. */
  shift(bytesMax: number): Uint8Array | null {
    const part = this.parts.shift() ?? this.sealed();
    if (part === null) return null;
    const given = part.length > bytesMax ? part.subarray(0, bytesMax) : part;
    if (given !== part) this.parts.unshift(part.subarray(bytesMax));
    this.bytes -= given.length;
    return given;
  }

  /** All that waits, where it is one part; null where it is not. */
  sole(): Uint8Array | null {
    if (this.parts.length !== 1 || this.block !== null) return null;
    this.bytes = 0;
    return this.parts.pop()!;
  }

  /** It will wait for long: it keeps no more memory than it takes. */
  detach(): void {
    this.parts = this.parts.map(detached);
  }

  private sealed(): Uint8Array | null {
    const { block } = this;
    this.block = null;
    return block === null ? null : block.subarray(0, this.blockLength);
  }
}

/** The same bytes in a memory of their own. What is small has one already. */
export function detached(part: Uint8Array): Uint8Array {
  return part.length > copiedBytesMax ? new Uint8Array(part) : part;
}

const blockBytes = 4096;
