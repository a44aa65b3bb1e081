import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { fstatSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { Spool } from "../../src/http/forms/spool.ts";
import { isFailure } from "../../src/operations/failure.ts";
import type { StoredFile } from "../../src/media/stored-file.ts";
import { eventually } from "../support/eventually.ts";
import { field, file, framed, openFilesIn, openFormServer } from "../support/form-server.ts";
import { rawRequest } from "../support/raw-request.ts";

setDefaultTimeout(60_000);

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "sluice-spool-"));
});

afterAll(() => {
  rmSync(directory, { recursive: true, force: true });
});

const mebibyte = 1024 * 1024;

/** Bytes that tell their place, so that none can stand in for another. */
function bytesOf(length: number): Buffer {
  const bytes = Buffer.alloc(Math.ceil(length / 4) * 4);
  for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE(at, at);
  return bytes.subarray(0, length);
}

async function spooled(
  bytes: Uint8Array,
  piece = bytes.length,
  expected = 0,
): Promise<{ readonly spool: Spool; readonly stored: StoredFile }> {
  const spool = new Spool(directory, expected);
  for (let at = 0; at < bytes.length; at += piece) expect(await spool.write(bytes.slice(at, at + piece))).toBeNull();
  const stored = await spool.finish();
  if (isFailure(stored)) throw new Error(stored.detail);
  return { spool, stored };
}

describe("a spool", () => {
  test("keeps up to a mebibyte in memory, and no byte more", async () => {
    const small = await spooled(bytesOf(mebibyte), 60_000);
    expect(openFilesIn(directory)).toBe(0);
    const large = await spooled(bytesOf(mebibyte + 1), 60_000);
    expect(openFilesIn(directory)).toBe(1);
    expect(Buffer.from(await small.stored.read(0, mebibyte)).equals(bytesOf(mebibyte))).toBe(true);
    expect(Buffer.from(await large.stored.read(0, mebibyte + 1)).equals(bytesOf(mebibyte + 1))).toBe(true);
    small.spool.dispose();
    large.spool.dispose();
    await eventually("it is closed", () => openFilesIn(directory) === 0);
  });

  test("goes to the disk sooner where much is expected", async () => {
    const { spool } = await spooled(bytesOf(400_000), 60_000, 2 * mebibyte);
    expect(openFilesIn(directory)).toBe(1);
    spool.dispose();
  });

  test("has no name on the disk, and is for this user only", async () => {
    const { spool } = await spooled(bytesOf(3 * mebibyte), 100_000);
    expect(readdirSync(directory)).toEqual([]);
    const descriptor = readdirSync("/proc/self/fd").find((candidate) => {
      try {
        return readlinkSync(`/proc/self/fd/${candidate}`).startsWith(directory);
      } catch {
        return false;
      }
    });
    const status = fstatSync(Number(descriptor));
    expect(status.mode & 0o777).toBe(0o600);
    expect([status.nlink, status.size]).toEqual([0, 3 * mebibyte]);
    spool.dispose();
    await eventually("it is closed", () => openFilesIn(directory) === 0);
  });

  test("gives any part of what it was given, as often as it is asked", async () => {
    const scenario = fc.record({
      length: fc.oneof(
        fc.integer({ min: 1, max: 10_000 }),
        fc.integer({ min: mebibyte - 5, max: mebibyte + 5 }),
        fc.integer({ min: 1, max: 3 * mebibyte }),
      ),
      piece: fc.oneof(fc.integer({ min: 4_000, max: 300_000 }), fc.constant(2 * mebibyte)),
      expected: fc.constantFrom(0, 5 * mebibyte),
      reads: fc.array(fc.tuple(fc.nat({ max: 3 * mebibyte }), fc.nat({ max: 2 * mebibyte })), { minLength: 1, maxLength: 5 }),
    });
    await fc.assert(
      fc.asyncProperty(scenario, async ({ length, piece, expected, reads }) => {
        const bytes = bytesOf(length);
        const { spool, stored } = await spooled(bytes, piece, expected);
        try {
          expect(stored.length).toBe(length);
          expect(Buffer.from(stored.head).equals(bytes.subarray(0, 4096))).toBe(true);
          const found = await Promise.all(reads.map(([from, count]) => stored.read(from, count)));
          for (const [index, [from, count]] of reads.entries()) {
            expect(Buffer.from(found[index] ?? []).equals(bytes.subarray(from, from + count))).toBe(true);
          }
        } finally {
          spool.dispose();
        }
      }),
      { numRuns: 40 },
    );
    await eventually("all are closed", () => openFilesIn(directory) === 0);
  });

  test("gives bytes of their own: whoever changes them changes nothing", async () => {
    const { spool, stored } = await spooled(bytesOf(1000));
    (await stored.read(0, 1000)).fill(0);
    expect(Buffer.from(await stored.read(0, 1000)).equals(bytesOf(1000))).toBe(true);
    spool.dispose();
  });

  test("that is disposed of while it is written or read closes its file after that, once", async () => {
    const writing = new Spool(directory);
    const written = writing.write(bytesOf(8 * mebibyte));
    await Promise.resolve();
    expect(openFilesIn(directory)).toBe(1);
    writing.dispose();
    expect(openFilesIn(directory)).toBe(1);
    await written;
    await eventually("it is closed", () => openFilesIn(directory) === 0);

    const { spool, stored } = await spooled(bytesOf(4 * mebibyte), 500_000);
    const reads = Array.from({ length: 4 }, (_, index) => stored.read(index * mebibyte, mebibyte));
    spool.dispose();
    spool.dispose();
    await Promise.allSettled(reads);
    await eventually("it is closed", () => openFilesIn(directory) === 0);
    expect(stored.read(0, 1)).rejects.toThrow("disposed");
  });

  test("that is disposed of before it has a file gets none", async () => {
    const spool = new Spool(directory);
    const written = spool.write(bytesOf(3 * mebibyte));
    spool.dispose();
    await written;
    const finished = await spool.finish();
    expect(isFailure(finished)).toBe(true);
    expect(openFilesIn(directory)).toBe(0);
  });

  test("that is disposed of without a file is not read any more either", async () => {
    const { spool, stored } = await spooled(bytesOf(10));
    spool.dispose();
    expect(stored.read(0, 1)).rejects.toThrow("disposed");
  });
});

describe("a disk that does not take an upload", () => {
  const boundary = "boundary";
  const body = framed([field("model", "m"), file(bytesOf(5 * mebibyte))], boundary);

  async function answerWith(place: string, chunked: boolean): Promise<void> {
    const server = openFormServer({ directory: place });
    try {
      const response = await rawRequest(server.url, {
        body,
        headers: { "Content-Type": `multipart/form-data; boundary=${boundary}` },
        chunked,
      });
      expect(response.status).toBe(500);
      expect(response.json()).toMatchObject({
        error: { message: "The gateway has no room to store this upload at the moment. Try again later.", code: "internal_error" },
      });
      expect(response.text).not.toContain(place);
      const [outcome] = server.outcomes;
      expect(outcome !== undefined && isFailure(outcome) && outcome.kind).toBe("internal");
      expect(outcome !== undefined && isFailure(outcome) && outcome.detail).toMatch(/: E(NOSPC|NOENT|NOTDIR)$/);
      await eventually("nothing is open", () => server.openFiles() === 0);
    } finally {
      await server.close();
    }
  }

  test.each([false, true])("because its folder is missing or is none: it says so, plainly (chunked: %p)", async (chunked) => {
    writeFileSync(join(directory, "a-file"), "");
    await answerWith(join(directory, "missing"), chunked);
    await answerWith(join(directory, "a-file"), chunked);
    rmSync(join(directory, "a-file"));
  });

  test.skipIf(!canMount())(
    "because it is full: it says so, and the room is free again (skipped where nothing can be mounted)",
    async () => {
      const place = mkdtempSync(join(tmpdir(), "sluice-full-"));
      expect(mount(place)).toBe(true);
      try {
        await answerWith(place, false);
        await answerWith(place, true);
        expect(readdirSync(place)).toEqual([]);
        // As large as the whole disk but for a little.
        writeFileSync(join(place, "room"), Buffer.alloc(1_000_000));
      } finally {
        Bun.spawnSync(["umount", place]);
        rmSync(place, { recursive: true, force: true });
      }
    },
  );
});

/** A disk of one mebibyte. */
function mount(place: string): boolean {
  return Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]).success;
}

function canMount(): boolean {
  if (process.getuid?.() !== 0) return false;
  const place = mkdtempSync(join(tmpdir(), "sluice-mount-"));
  const mounted = mount(place) && Bun.spawnSync(["umount", place]).success;
  rmSync(place, { recursive: true });
  return mounted;
}
