import { tmpdir } from "node:os";
import { FileSlots } from "../../files/file-slots.ts";
import type { Backlog } from "./backlog.ts";

/**
 * All backlogs of the process that wait for slow readers. Together they may hold so much memory; beyond that those go to
 * a file that have waited longest, since it is most likely that they will wait on.
 */
export class Overflow {
  private readonly waiting = new Map<Backlog, number>();
  private heldBytes = 0;
  private movingBytes = 0;

  constructor(
    private readonly slots: FileSlots,
    private readonly heldBytesMax: number,
  ) {}

  /** Where what waits is at the moment. */
  get state(): { readonly heldBytes: number; readonly movingBytes: number; readonly parked: number } {
    const { heldBytes, movingBytes, slots } = this;
    return { heldBytes, movingBytes, parked: slots.size };
  }

  /** The disk has enough to do, and memory is held for it. */
  get isBusy(): boolean {
    return this.movingBytes >= this.heldBytesMax / 2;
  }

  /** Nobody reads it at the moment. */
  wait(backlog: Backlog): void {
    if (backlog.heldBytes === 0) return;
    // A little that is left must not keep a large memory, and is not worth a file.
    if (backlog.length <= smallBytes) return backlog.shrink();
    this.waiting.set(backlog, backlog.heldBytes);
    this.heldBytes += backlog.heldBytes;
    for (const oldest of this.waiting.keys()) {
      if (this.heldBytes <= this.heldBytesMax) return;
      this.leave(oldest);
      void this.move(oldest);
    }
  }

  /** It is read on, or of no more use. */
  leave(backlog: Backlog): void {
    this.heldBytes -= this.waiting.get(backlog) ?? 0;
    this.waiting.delete(backlog);
  }

  private async move(backlog: Backlog): Promise<void> {
    const bytes = backlog.heldBytes;
    this.movingBytes += bytes;
    await backlog.park(this.slots);
    this.movingBytes -= bytes;
  }
}

const smallBytes = 16 * 1024;

/** The runtime reads up to half a mebibyte at once. */
const slotBytes = 512 * 1024;
/** A gibibyte of the temporary directory at most; what is beyond stays in memory. */
const slotsMax = 2048;
const heldBytesMax = 2 * 1024 * 1024;

/** Of this process. */
export const overflow = new Overflow(new FileSlots({ directory: tmpdir(), slotBytes, slotsMax }), heldBytesMax);
