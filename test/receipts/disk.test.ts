import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startChaos } from "../support/chaos.ts";
import { openChat, type ChatReply } from "../support/chat.ts";
import { FaultyDisk, type DiskFault } from "../support/disk-faults.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { product } from "../support/product.ts";
import { price, Receipts } from "../support/receipts.ts";

setDefaultTimeout(60_000);

const plainKey = "sk-plain-0123456789abcdef";
const meteredKey = "sk-metered-0123456789abcdef";
const adminToken = "5f1c07d2a94be863c1d7f02b9a6e4835d0c2";
const ends: (() => Promise<unknown> | void)[] = [];

afterAll(async () => {
  for (const end of ends) await end();
});

/** Where the data of a gateway lies, and what can happen to it. */
interface Disk {
  readonly folder: string;
  /** What the gateway is started with, before its own name. */
  readonly command: readonly string[];
  fail(): Promise<void> | void;
  restore(): Promise<void> | void;
}

const smallDisk = await mountSmall();
const faultyDisk = FaultyDisk.make();
if (!("skipped" in faultyDisk)) ends.push(() => faultyDisk[Symbol.dispose]());

const disks: readonly { readonly what: string; readonly disk: Disk | null; readonly why: string }[] = [
  { what: "a full disk", disk: smallDisk, why: "no small file system can be mounted here" },
  // A mount that is in use is not made read-only by the mount command, only by the kernel when the disk fails.
  { what: "a disk that becomes read-only", ...faulty("erofs") },
  { what: "a disk that fails to sync", ...faulty("eio") },
];

function faulty(fault: DiskFault): { readonly disk: Disk | null; readonly why: string } {
  if ("skipped" in faultyDisk) return { disk: null, why: faultyDisk.skipped };
  const { folder, command } = faultyDisk;
  return {
    disk: { folder: join(folder, fault), command, fail: () => faultyDisk.fail(fault), restore: () => faultyDisk.restore() },
    why: "",
  };
}

for (const { what, disk, why } of disks) {
  if (disk === null) test.skip(`F61: ${what} could not be tried, because ${why}`, () => {});
  else test(`F61: ${what} stops nobody but those who spend money or change the store, and no receipt is lost`, async () => survives(disk));
}

async function survives(disk: Disk): Promise<void> {
  await using upstream = await startChaos();
  const directory = await mkdtemp(join(tmpdir(), "sluice-disk-"));
  ends.push(async () => rm(directory, { recursive: true, force: true }));
  await writeFile(join(directory, "token"), adminToken, { mode: 0o600 });
  await using gateway = await startGateway({
    directory,
    command: [...disk.command, "sh", product],
    env: { ADMIN_TOKEN_FILE: join(directory, "token") },
    config: {
      admin: "127.0.0.1:0",
      data_dir: disk.folder,
      keys: [
        { name: "plain", key: plainKey },
        { name: "metered", key: meteredKey, limits: { budget_usd: 1_000 } },
      ],
      channels: [{ name: "only", base_url: upstream.url, models: "*" }],
      prices: [{ model: "*", ...price }],
    },
  });
  const api = `${gateway.adminUrl}/admin/api`;
  const makeKey = async (name: string): Promise<{ readonly status: number; readonly text: string }> => {
    const headers = { authorization: `Bearer ${adminToken}`, "content-type": "application/json" };
    const response = await fetch(`${api}/keys`, { method: "POST", headers, body: JSON.stringify({ name }) });
    return { status: response.status, text: await response.text() };
  };
  const ask = async (id: string, key: string): Promise<ChatReply> =>
    (await openChat(gateway, { model: "m" }, { key, stream: Number(id.split("-")[1]) % 2 === 0, headers: { "x-request-id": id } })).reply;
  const served: string[] = [];
  const serve = async (id: string): Promise<void> => {
    const reply = await ask(id, plainKey);
    expect([reply.status, reply.finishReason]).toEqual([200, "stop"]);
    served.push(reply.requestId!);
  };
  const isLogged = (wanted: string): boolean => gateway.logs.some(({ event }) => event === wanted);

  expect((await ask("before-1", meteredKey)).status).toBe(200);
  expect((await makeKey("before")).status).toBe(201);
  await using receipts = await Receipts.open(directory, disk.folder);
  await receipts.of("before-1");

  await disk.fail();
  // A file that grows has room left in its last page, so it takes a few.
  for (let at = 0; at < 500 && !isLogged("journal_trouble"); at += 1) {
    await Promise.all(Array.from({ length: 5 }, async (_, lane) => serve(`failing-${at * 5 + lane}`)));
  }
  expect(isLogged("journal_trouble")).toBe(true);
  for (let at = 0; at < 20; at += 1) await serve(`still-${at}`);
  const refused = await ask("metered-1", meteredKey);
  expect([refused.status, refused.error?.code]).toEqual([503, "store_unavailable"]);
  // The store has a little room left in its files as well.
  let made = 0;
  let change = await makeKey("during-0");
  while (change.status === 201 && made < 2_000) change = await makeKey(`during-${++made}`);
  expect([change.status, (JSON.parse(change.text) as { error: { code: string } }).error.code]).toEqual([507, "storage_full"]);
  const health = await fetch(`${gateway.url}/readyz`);
  expect([health.status, await health.json()]).toEqual([
    200,
    expect.objectContaining({ degraded: expect.arrayContaining(["journal"]) as string[] }),
  ]);

  await disk.restore();
  await eventually("the journal is written again", () => isLogged("journal_recovered"), 10_000);
  expect((await makeKey("after")).status).toBe(201);
  expect((await ask("after-1", meteredKey)).status).toBe(200);
  const all = await receipts.ofCalls(["before-1", ...served, "after-1"], 15_000);
  expect(all.every(({ state }) => state === "complete")).toBe(true);
  expect(await receipts.all()).toHaveLength(all.length);
  await receipts.expectSumsToMatch();
  expect(await receipts.integrity()).toBe("ok");
  expect(gateway.running).toBe(true);
}

/** A file system of a few megabytes; null where that needs rights that we do not have. */
async function mountSmall(): Promise<Disk | null> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-small-"));
  const mount = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], { stdout: "ignore", stderr: "ignore" });
  ends.push(async () => {
    if (mount.success) Bun.spawnSync(["umount", "-l", folder]);
    await rm(folder, { recursive: true, force: true });
  });
  if (!mount.success) return null;
  await mkdir(join(folder, "data"));
  const filler = join(folder, "filler");
  return { folder: join(folder, "data"), command: [], fail: async () => fill(filler), restore: async () => rm(filler) };
}

async function fill(path: string): Promise<void> {
  const file = await open(path, "w");
  const block = Buffer.alloc(4_096, 1);
  try {
    for (;;) if ((await file.write(block)).bytesWritten < block.length) return;
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe("ENOSPC");
  } finally {
    await file.close();
  }
}
