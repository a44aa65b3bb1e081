// Needs: quiet. It mostly waits for a disk, and a flush may take a second.
import { afterAll, expect, test } from "bun:test";
import fc from "fast-check";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openJournal, type Journal, type JournalOptions, type JournalError } from "../../src/store/journal/journal.ts";
import { frameAt, nextFrame, putFrame, roomFor } from "../../src/store/journal/frame.ts";
import { lockFile, segmentFile, segmentsIn } from "../../src/store/journal/folder.ts";
import { acquireLock } from "../../src/store/journal/lock.ts";
import { SegmentReader } from "../../src/store/journal/reader.ts";
import { entryOf } from "../../src/store/receipts/receipt-entry.ts";
import { lineOf, openingLine, receiptLine } from "../../src/store/receipts/receipt-line.ts";
import type { ReceiptOpening, Receipt } from "../../src/usage/receipt.ts";
import { eventually } from "../support/eventually.ts";
import { sampleOpening, sampleReceipt } from "../support/journal-receipts.ts";
import { anyText } from "../support/properties.ts";
import { slowed } from "../support/slowed.ts";

const folders: string[] = [];
const open: Journal[] = [];

afterAll(async () => {
  for (const journal of open) await journal.stop().catch(() => undefined);
  for (const folder of folders) {
    Bun.spawnSync(["umount", folder], { stderr: "ignore" });
    rmSync(folder, { recursive: true, force: true });
  }
});

function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-journal-"));
  folders.push(folder);
  return folder;
}

function journalIn(folder: string, options: Partial<JournalOptions> = {}): Journal {
  const journal = openJournal({ folder, holder: "holder-1", onError: () => {}, ...options });
  open.push(journal);
  return journal;
}

/** Everything that the segments of a slot say, in their order. */
function saidIn(slot: string): {
  readonly openings: readonly ReceiptOpening[];
  readonly receipts: readonly Receipt[];
  readonly damages: readonly string[];
} {
  const openings: ReceiptOpening[] = [];
  const receipts: Receipt[] = [];
  const damages: string[] = [];
  for (const segment of segmentsIn(slot)) {
    const reader = new SegmentReader(segmentFile(slot, segment));
    for (let position = 0, atEnd = false; !atEnd;) {
      const batch = reader.read(position, { receiptsMax: 7, finished: true, openings: true });
      openings.push(...batch.openings);
      const parsed = reader.receipts(position, batch.position);
      expect(batch.receipts).toEqual(parsed.map(entryOf));
      receipts.push(...parsed);
      damages.push(...batch.damages);
      ({ position, atEnd } = batch);
    }
    reader.close();
  }
  return { openings, receipts, damages };
}

test("a record is on disk when its promise resolves, in a private file", async () => {
  const journal = journalIn(freshFolder());
  const opening = sampleOpening();
  const receipt = sampleReceipt({ plan: [{ channel: "a", model: "b", tier: 0, verdict: "taken", cause: null, forMs: null }] });
  await journal.open(opening);
  expect(saidIn(journal.slotFolder)).toEqual({ openings: [opening], receipts: [], damages: [] });
  await journal.close(receipt);
  expect(saidIn(journal.slotFolder)).toEqual({ openings: [opening], receipts: [receipt], damages: [] });
  expect(statSync(segmentFile(journal.slotFolder, 1)).mode & 0o777).toBe(0o600);
  expect(statSync(lockFile(journal.slotFolder)).mode & 0o777).toBe(0o600);
  expect(statSync(journal.slotFolder).mode & 0o777).toBe(0o700);
});

test("a call without a budget is on disk after 20 ms, unless it has ended by then", async () => {
  const journal = journalIn(freshFolder());
  const [lasting, quick] = [sampleOpening(), sampleOpening()];
  journal.openDeferred(lasting);
  journal.openDeferred(quick);
  const receipt = sampleReceipt({ id: quick.id });
  await journal.close(receipt);
  expect(saidIn(journal.slotFolder).openings).toEqual([]);
  await Bun.sleep(21);
  // What is due is written before the next turn is over.
  await Bun.sleep(1);
  await journal.flush();
  expect(saidIn(journal.slotFolder)).toEqual({ openings: [lasting], receipts: [receipt], damages: [] });
});

test("names that no database accepts are read from the journal in a storable form", async () => {
  const journal = journalIn(freshFolder());
  const names = ["plain", "\0", "a\0b", "\ud800x", "é", "😀", 'a "name"', "x".repeat(500)];
  for (const name of names) await journal.close(sampleReceipt({ keyId: name, model: name, channel: name, requestId: name }));
  // It is looked there that each row is that of its receipt.
  expect(saidIn(journal.slotFolder).receipts.length).toBe(names.length);
});

test("all records of one turn of the event loop share one promise", async () => {
  const journal = journalIn(freshFolder());
  const one = journal.close(sampleReceipt());
  const other = journal.open(sampleOpening());
  expect(other).toBe(one);
  await one;
  expect(journal.close(sampleReceipt())).not.toBe(one);
});

test("in sync mode records resolve as well, across segments and at the end", async () => {
  const journal = journalIn(freshFolder(), { sync: true, segmentBytes: 2_000 });
  await Promise.all(Array.from({ length: 5 }, async () => journal.close(sampleReceipt())));
  for (let call = 0; call < 10; call += 1) await journal.close(sampleReceipt());
  const last = journal.close(sampleReceipt());
  await journal.stop();
  await last;
  expect(saidIn(journal.slotFolder).receipts.length).toBe(16);
  expect(journal.close(sampleReceipt())).rejects.toThrow("closed");
});

test("a record that is half written when it is read is not reported as damage", async () => {
  const journal = journalIn(freshFolder());
  for (let call = 0; call < 3; call += 1) await journal.close(sampleReceipt());
  await journal.stop();
  const written = segmentFile(journal.slotFolder, 1);
  const bytes = readFileSync(written);
  const file = join(freshFolder(), "growing");
  for (let half = 1; half < bytes.length; half += 37) {
    writeFileSync(file, bytes.subarray(0, half));
    const reader = new (class extends SegmentReader {
      protected override rest(position: number): Buffer {
        writeFileSync(file, bytes);
        return super.rest(position);
      }
    })(file);
    let receipts = 0;
    for (let position = 0; position < bytes.length;) {
      const batch = reader.read(position, { receiptsMax: 10, finished: false, openings: false });
      expect(batch.damages).toEqual([]);
      receipts += batch.receipts.length;
      ({ position } = batch);
    }
    reader.close();
    expect(receipts).toBe(3);
  }
});

test("each segment begins with the running calls, and only with them", async () => {
  const journal = journalIn(freshFolder(), { segmentBytes: 4_000 });
  const long = sampleOpening();
  await journal.open(long);
  for (let call = 0; call < 40; call += 1) {
    const opening = sampleOpening();
    await journal.open(opening);
    await journal.close(sampleReceipt({ id: opening.id }));
  }
  const segments = segmentsIn(journal.slotFolder);
  expect(segments.length).toBeGreaterThan(3);
  for (const segment of segments.slice(1)) {
    const reader = new SegmentReader(segmentFile(journal.slotFolder, segment));
    const { openings, head } = reader.read(0, { receiptsMax: 1, finished: true, openings: true });
    reader.close();
    expect(openings[0]).toEqual(long);
    expect(openings.length).toBeLessThanOrEqual(3);
    expect(head?.holder).toBe("holder-1");
  }
  const { receipts } = saidIn(journal.slotFolder);
  expect(receipts.length).toBe(40);
  expect(journal.written()).toMatchObject({ segment: segments.at(-1)!, receipts: 40 });
});

test("journals in one folder have slots of their own, and a free slot is reused", async () => {
  const folder = freshFolder();
  const one = journalIn(folder);
  const other = journalIn(folder);
  expect([one.slot, other.slot]).toEqual([1, 2]);
  await one.close(sampleReceipt());
  await one.stop();
  const next = journalIn(folder);
  expect([next.slot, next.firstSegment]).toEqual([1, 2]);
});

test("the lock of a slot is released when its process dies, even by SIGKILL", async () => {
  const folder = freshFolder();
  const file = join(folder, "lock");
  const program = join(import.meta.dir, "../../src/store/journal/lock.ts");
  const child = Bun.spawn(
    [
      process.execPath,
      "-e",
      `const { acquireLock } = await import(${JSON.stringify(program)}); globalThis.lock = acquireLock(process.argv[1]); console.log("held"); setInterval(() => {}, 1000)`,
      file,
    ],
    { stdout: "pipe" },
  );
  const { value } = await child.stdout.getReader().read();
  expect(new TextDecoder().decode(value)).toBe("held\n");
  expect(acquireLock(file)).toBeNull();
  child.kill("SIGKILL");
  await child.exited;
  const lock = acquireLock(file);
  expect(lock).not.toBeNull();
  expect(acquireLock(file)).toBeNull();
  lock?.release();
});

test("a folder that cannot be used is reported with instructions", () => {
  const file = join(freshFolder(), "file");
  writeFileSync(file, "");
  expect(() => openJournal({ folder: file, holder: "h", onError: () => {} })).toThrow("Check that the folder belongs to the user");
});

test("lines preserve any text and any number that JSON has", () => {
  const text = anyText({ maxLength: 80 });
  const figure = fc.option(fc.double({ min: 0, max: 1e15, noNaN: true, noDefaultInfinity: true }), { nil: null });
  fc.assert(
    fc.property(text, text, figure, fc.boolean(), (one, other, number, flag) => {
      const positive = number === 0 ? 0 : number;
      const receipt = sampleReceipt({
        requestId: one,
        model: other,
        channel: flag ? one : null,
        billedNanos: positive,
        stream: flag,
        plan: flag ? [{ channel: one, model: other, tier: positive, verdict: "ready", cause: one, forMs: positive }] : null,
      });
      const opening = sampleOpening({ requestId: one, model: other, nanos: positive, stream: flag });
      expect(lineOf(receiptLine(receipt))).toEqual({ kind: "receipt", receipt });
      expect(lineOf(openingLine(opening))).toEqual({ kind: "opening", opening });
    }),
    { numRuns: 200 },
  );
});

test("a line of another shape is ignored, whatever it contains", () => {
  fc.assert(
    fc.property(fc.json(), (text) => expect(lineOf(text)).toBeNull()),
    { numRuns: 200 },
  );
  for (const text of ["", "[", "[2]", '[2,"id"]', "[3]", "null", "[0,1,2,3]"]) expect(lineOf(text)).toBeNull();
});

test("a huge plan and a huge name do not make a huge record", () => {
  const step = { channel: "c".repeat(100), model: "m".repeat(100), tier: 0, verdict: "ready", cause: null, forMs: null };
  const line = receiptLine(sampleReceipt({ model: "m".repeat(1 << 20), plan: Array.from({ length: 10_000 }, () => step) }));
  expect(line.length).toBeLessThan(2_000);
  const read = lineOf(line);
  expect(read?.kind === "receipt" && read.receipt.plan).toBeNull();
});

test("a frame that is truncated or changed anywhere is rejected, and the next complete one is found", () => {
  const texts = ["[1]", '["ä€😀"]', `["${"x".repeat(300)}"]`];
  const bytes = Buffer.alloc(texts.reduce((sum, text) => sum + roomFor(text), 0));
  const ends: number[] = [];
  for (const text of texts) ends.push(putFrame(bytes, ends.at(-1) ?? 0, text));
  const whole = bytes.subarray(0, ends.at(-1));
  for (let cut = 0; cut < ends[0]!; cut += 1) expect(frameAt(whole.subarray(0, cut), 0).kind).toBe("short");
  for (let at = 0; at < ends[0]!; at += 1) {
    const changed = Buffer.from(whole);
    changed[at]! ^= 0x41;
    expect(frameAt(changed, 0).kind).not.toBe("frame");
    expect(nextFrame(changed, 1)).toBe(ends[0]!);
  }
  expect(frameAt(Buffer.alloc(64), 0).kind).toBe("bad");
  expect(nextFrame(Buffer.alloc(64), 0)).toBeNull();
});

test("damage in the middle loses only the damaged records", async () => {
  const journal = journalIn(freshFolder());
  const receipts = Array.from({ length: 5 }, () => sampleReceipt());
  const ends: number[] = [];
  for (const receipt of receipts) {
    await journal.close(receipt);
    ends.push(journal.written().position);
  }
  await journal.stop();
  const file = segmentFile(journal.slotFolder, 1);
  const bytes = readFileSync(file);
  bytes[ends[1]! + 40]! ^= 1;
  writeFileSync(file, bytes);
  const said = saidIn(journal.slotFolder);
  expect(said.receipts.map(({ id }) => id)).toEqual(receipts.filter((_, at) => at !== 2).map(({ id }) => id));
  expect(said.damages).toEqual([`${file}: ${ends[2]! - ends[1]!} bytes from byte ${ends[1]!} on are damaged and were left out`]);
});

test("a folder that is deleted under a running journal is created again", async () => {
  const journal = journalIn(freshFolder());
  await journal.close(sampleReceipt());
  rmSync(journal.slotFolder, { recursive: true });
  await eventually("records can be found again", async () => {
    await journal.close(sampleReceipt());
    return existsSync(journal.slotFolder) && saidIn(journal.slotFolder).receipts.length > 0;
  });
});

test("a journal that exceeds its disk limit while the store is away is reported until it is smaller", async () => {
  const errors: (JournalError | null)[] = [];
  const journal = journalIn(freshFolder(), {
    onError: (error) => errors.push(error),
    segmentBytes: 1_000,
    diskBytesMax: 4_000,
    retryMs: 10,
  });
  for (let call = 0; call < 20; call += 1) await journal.close(sampleReceipt());
  expect(journal.full).toBeTrue();
  expect(saidIn(journal.slotFolder).receipts.length).toBe(20);
  for (const segment of segmentsIn(journal.slotFolder).slice(0, -1)) rmSync(segmentFile(journal.slotFolder, segment));
  await eventually("there is room again", () => !journal.full);
  expect(errors).toEqual([{ message: "more than 4000 bytes of receipts wait for the store", lost: 0 }, null]);
});

const tiny = tinyDisk();
test.skipIf(tiny === null)(
  "a full disk loses nothing: records are queued, answers are not delayed, and metered calls are rejected",
  async () => {
    const errors: (JournalError | null)[] = [];
    const journal = journalIn(join(tiny!, "journal"), {
      onError: (error) => errors.push(error),
      flushTimeoutMs: 200,
      retryMs: 50,
      segmentBytes: 100_000,
    });
    const ballast = join(tiny!, "ballast");
    const sent: Receipt[] = [];
    const send = async (): Promise<void> => {
      const receipt = sampleReceipt();
      sent.push(receipt);
      await journal.close(receipt);
    };
    for (let call = 0; call < 50; call += 1) await send();
    // What is left of the disk is not a multiple of a record, so that one is torn when it ends.
    Bun.spawnSync(["sh", "-c", `head -c 2000000 /dev/zero > ${ballast}; true`], { stderr: "ignore" });
    while (!journal.full && sent.length < 5_000) await Promise.all(Array.from({ length: 25 }, send));
    expect(journal.full).toBeTrue();
    expect(errors).toEqual([{ message: expect.stringContaining("ENOSPC") as string, lost: 0 }]);
    const beganMs = performance.now();
    for (let call = 0; call < 200; call += 1) await send();
    expect(performance.now() - beganMs).toBeLessThan(slowed(1_000));
    expect(saidIn(journal.slotFolder).receipts.length).toBeLessThan(sent.length);
    rmSync(ballast);
    await eventually("the disk takes records again", () => !journal.full);
    await journal.flush();
    const said = saidIn(journal.slotFolder);
    expect(said.damages).toEqual([]);
    expect(said.receipts).toEqual(sent);
    expect(errors.at(-1)).toBeNull();
    expect(errors.length).toBe(2);
    await journal.stop();
  },
);

test("a new segment that cannot be created is retried, and nothing is lost", async () => {
  const errors: (JournalError | null)[] = [];
  const journal = journalIn(freshFolder(), { onError: (error) => errors.push(error), flushTimeoutMs: 100, retryMs: 50, segmentBytes: 1 });
  const receipts = [sampleReceipt(), sampleReceipt(), sampleReceipt()] as const;
  await journal.close(receipts[0]);
  rmSync(journal.slotFolder, { recursive: true });
  writeFileSync(journal.slotFolder, "in the way");
  await journal.close(receipts[1]);
  expect(journal.full).toBeTrue();
  rmSync(journal.slotFolder);
  await eventually("the disk takes records again", () => !journal.full);
  await journal.close(receipts[2]);
  expect(saidIn(journal.slotFolder).receipts).toEqual(receipts.slice(1));
  expect(errors.map((error) => error === null)).toEqual([false, true]);
  await journal.stop();
});

test.skipIf(tiny === null)("a full queue in memory is reported, and a call whose receipt was dropped stays in flight", async () => {
  const errors: (JournalError | null)[] = [];
  const journal = journalIn(join(tiny!, "memory"), {
    onError: (error) => errors.push(error),
    flushTimeoutMs: 50,
    retryMs: 50,
    memoryBytesMax: 20_000,
  });
  const ballast = join(tiny!, "ballast");
  const opening = sampleOpening();
  await journal.open(opening);
  Bun.spawnSync(["sh", "-c", `cat /dev/zero > ${ballast}; true`], { stderr: "ignore" });
  for (let call = 0; call < 200; call += 1) await journal.close(sampleReceipt());
  await journal.close(sampleReceipt({ id: opening.id }));
  expect(errors.at(-1)?.message).toContain("memory is full");
  expect(errors.at(-1)?.lost).toBe(1);
  rmSync(ballast);
  await eventually("the disk takes records again", () => !journal.full);
  expect(errors.length).toBe(3);
  expect(saidIn(journal.slotFolder).receipts.length).toBeGreaterThan(30);
  await journal.stop();
});

/** A disk of a megabyte, where this user may make one. */
function tinyDisk(): string | null {
  const folder = freshFolder();
  const { success } = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], { stderr: "ignore" });
  if (!success) console.warn("skipped: a full disk cannot be tried here, because this user may not mount a small one (tmpfs)");
  return success ? folder : null;
}
