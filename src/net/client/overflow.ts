import { tmpdir } from "node:os";
import { FileSlots } from "../../files/file-slots.ts";
import type { Backlog } from "./backlog.ts";

/**
 * All backlogs of the process that wait for slow readers. Their memory is limited in total; beyond the limit, those that have
 * waited longest are spilled to a file, because they are most likely to wait on.
 */
export class Overflow {
  private readonly waiting = new Map<Backlog, number>();
  private heldBytes = 0;
  private spillingBytes = 0;

  constructor(
    private readonly slots: FileSlots,
    private readonly heldBytesMax: number,
  ) {}

  /** How much is in memory, on its way to the file, and in the file. */
  get state(): { readonly heldBytes: number; readonly spillingBytes: number; readonly spilled: number } {
    const { heldBytes, spillingBytes, slots } = this;
    return { heldBytes, spillingBytes, spilled: slots.size };
  }

  /** The disk is behind, and memory is held for it. */
  get isBusy(): boolean {
    return this.spillingBytes >= this.heldBytesMax / 2;
  }

  /** The backlog is not being read. */
  add(backlog: Backlog): void {
    if (backlog.heldBytes === 0) return;
    // A small rest must not keep a large chunk alive, and is not worth a file.
    if (backlog.length <= smallBytes) return backlog.shrink();
    this.waiting.set(backlog, backlog.heldBytes);
    this.heldBytes += backlog.heldBytes;
    for (const oldest of this.waiting.keys()) {
      if (this.heldBytes <= this.heldBytesMax) return;
      this.delete(oldest);
      void this.spill(oldest);
    }
  }

  /** The backlog is being read again, or not needed any more. */
  delete(backlog: Backlog): void {
    this.heldBytes -= this.waiting.get(backlog) ?? 0;
    this.waiting.delete(backlog);
  }

  private async spill(backlog: Backlog): Promise<void> {
    const bytes = backlog.heldBytes;
    this.spillingBytes += bytes;
    await backlog.spill(this.slots);
    this.spillingBytes -= bytes;
  }
}

const smallBytes = 16 * 1024;

/** The runtime reads up to half a mebibyte at once. */
const slotBytes = 512 * 1024;
/** At most one gibibyte in the temporary directory; the rest stays in memory. */
const slotsMax = 2048;
const heldBytesMax = 2 * 1024 * 1024;

/** The instance of this process. */
export const overflow = new Overflow(new FileSlots({ directory: tmpdir(), slotBytes, slotsMax }), heldBytesMax);
