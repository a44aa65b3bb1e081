import { releaseHolds, settleHolds } from "../tables/budget-table.ts";
import type { Database } from "../database.ts";
import { SlotDrain } from "../drain/drain.ts";
import { lockFile, segmentFile, segmentsIn, slotFolders } from "./folder.ts";
import { acquireLock } from "./lock.ts";
import { SegmentReader } from "./reader.ts";
import { sql } from "../sql.ts";

export interface CatchUpOptions {
  /** The folder that holds the journals of all processes. */
  readonly folder: string;
  readonly database: Database;
  /** Called with a message about each damaged record. */
  readonly report: (message: string) => void;
  /** How long draining the journals of dead processes may take, and how long to wait for the drains of living ones. */
  readonly drainMs?: number;
  readonly waitMs?: number;
}

/**
 * Brings the store up to date before usage is read from it: drains the journals of dead processes, and waits shortly until living
 * processes have drained what they have written so far. Returns the number of bytes that are still missing.
 */
export async function catchUp({ folder, database, report, drainMs = 30_000, waitMs = 3_000 }: CatchUpOptions): Promise<number> {
  const untilMs = performance.now() + drainMs;
  const living: WrittenUpTo[] = [];
  let behindBytes = 0;
  for (const slot of slotFolders(folder)) {
    if (segmentsIn(slot).length === 0) continue;
    const lock = acquireLock(lockFile(slot));
    if (lock === null) {
      living.push(...writtenUpTo(slot));
      continue;
    }
    const drain = new SlotDrain({ database, settle: settleHolds, release: releaseHolds, report }, slot, null);
    try {
      let busy = true;
      while (busy && performance.now() < untilMs) busy = await drain.step();
      if (busy) behindBytes += drain.behindBytes;
    } finally {
      drain.close();
      lock.release();
    }
  }
  return behindBytes + (await waitForDrain(living, database, waitMs));
}

/** Whether a running process on this machine has a journal in this folder. */
export function hasLivingJournal(folder: string): boolean {
  return slotFolders(folder).some((slot) => {
    const lock = acquireLock(lockFile(slot));
    lock?.release();
    return lock === null;
  });
}

/** A segment and its length at the time of the call. */
interface WrittenUpTo {
  readonly file: string;
  readonly bytes: number;
}

function writtenUpTo(slot: string): readonly WrittenUpTo[] {
  return segmentsIn(slot).flatMap((segment) => {
    const file = segmentFile(slot, segment);
    return withSegment(file, (reader) => [{ file, bytes: reader.bytes }]) ?? [];
  });
}

async function waitForDrain(segments: readonly WrittenUpTo[], database: Database, waitMs: number): Promise<number> {
  const untilMs = performance.now() + waitMs;
  for (;;) {
    let bytes = 0;
    for (const written of segments) bytes += await waitingBytes(written, database);
    if (bytes === 0 || performance.now() >= untilMs) return bytes;
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

/** Openings do not count: only receipts go into the store. */
async function waitingBytes({ file, bytes }: WrittenUpTo, database: Database): Promise<number> {
  const segment = withSegment(file, (reader) => reader.beginning().head?.segment ?? null);
  if (segment === null) return 0;
  const [row] = await database.all<{ readonly position: number }>(sql`select position from journals where name = ${segment}`);
  const stored = row?.position ?? 0;
  const isBehind = withSegment(file, (reader) => holdsReceipts(reader, stored, bytes)) ?? false;
  return isBehind ? bytes - stored : 0;
}

function holdsReceipts(reader: SegmentReader, from: number, until: number): boolean {
  for (let position = from; position < until;) {
    const batch = reader.read(position, { receiptsMax: 1, finished: false, openings: false, until });
    if (batch.receipts.length > 0) return true;
    if (batch.position === position) return false;
    ({ position } = batch);
  }
  return false;
}

/** Null if the segment was deleted: all of it is in the store then. */
function withSegment<T>(file: string, look: (reader: SegmentReader) => T): T | null {
  let reader: SegmentReader;
  try {
    reader = new SegmentReader(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  try {
    return look(reader);
  } finally {
    reader.close();
  }
}

const pollMs = 50;
