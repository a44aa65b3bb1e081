// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import type { AuditEntry } from "../../src/gateway/storage.ts";
import type { AuditEntryView, AuditFormat } from "../../src/manage/audit-export.ts";
import { startAdmin, tester, type AdminWorld } from "../support/admin.ts";
import { newGroup } from "../support/groups.ts";
import { newKey } from "../support/new-key.ts";

const exportBytesMax = 8 * 1024 * 1024;

describe("an export of the audit log", () => {
  test.each(["jsonl", "csv"] as const)("of more than 10,000 entries goes on where it was cut, with each entry once: %s", async (format) => {
    const world = await startAdmin();
    const subjects = await noted(world, 10_003);
    const parts = await exported(world, await world.token("viewer"), "action=test.note", format);
    expect(parts.map(({ entries }) => entries.length)).toEqual([10_000, 3]);
    expect(parts.map(({ next }) => next)).toEqual([parts[0]!.entries.at(-1)!.id, null]);
    expect(parts.flatMap(subjectsOf)).toEqual(subjects);
  });

  test("of exactly 10,000 entries is whole, and names no next part", async () => {
    const world = await startAdmin();
    const subjects = await noted(world, 10_000);
    const parts = await exported(world, await world.token("viewer"), "action=test.note");
    expect(parts.map((part) => [subjectsOf(part), part.next])).toEqual([[subjects, null]]);
  });

  test.each(["x", "語"])(
    "has at most 8 MiB, and goes on where it was cut, with each entry once: of the character %s",
    async (character) => {
      const world = await startAdmin();
      const subjects = await noted(world, 1_000, { detail: { text: character.repeat(12_000) } });
      const parts = await exported(world, await world.token("viewer"), "action=test.note");
      expect(parts.flatMap(subjectsOf)).toEqual(subjects);
      const cut = parts.slice(0, -1);
      expect(cut.length).toBeGreaterThan(0);
      for (const { bytes } of parts) expect(bytes).toBeLessThanOrEqual(exportBytesMax);
      // One more entry would not have had room.
      const entryBytesMax = 40_000;
      for (const { bytes } of cut) expect(bytes).toBeGreaterThan(exportBytesMax - entryBytesMax);
      for (const { entries, next } of cut) expect(next).toBe(entries.at(-1)!.id);
    },
  );
});

describe("an administrator of a group", () => {
  test.each(["jsonl", "csv"] as const)("exports the entries about their group and those below it, and no others: %s", async (format) => {
    const world = await startAdmin();
    const { keys, groups, channels } = world.storage;
    for (const [id, parent] of [
      ["grp_org", null],
      ["grp_web", "grp_org"],
      ["grp_app", "grp_web"],
      ["grp_ads", "grp_org"],
    ] as const)
      await groups.create(id, newGroup(`name of ${id}`, { parent }), [], tester);
    for (const group of ["grp_org", "grp_web", "grp_app", "grp_ads", null]) {
      const key = { ...newKey, name: `key of ${group}`, group };
      await keys.create(`key-${group}`, key, { digest: `digest of ${group}`, last4: "abcd" }, tester);
    }
    // What it was before it came to them stays the business of its former group.
    await keys.change("key-grp_ads", { owner: "owner-in-ads" }, tester);
    await keys.change("key-grp_ads", { group: "grp_web" }, tester);
    await keys.change("key-grp_ads", { name: "of web now" }, tester);
    await keys.revoke("key-grp_app", tester);
    await groups.change("grp_app", { frozen: true }, [], tester);
    await groups.change("grp_org", { frozen: true }, [], tester);
    await channels.create({ name: "main", entry: { base_url: "https://api.example.com/v1" }, sealed: "sealed", last4: ["abcd"] }, tester);
    const eve = await world.token("group_admin", "grp_web");
    const own = await exported(world, eve, "", format);
    expect(own.map(changesIn)).toEqual([
      [
        "group.freeze grp_app",
        "key.revoke key-grp_app",
        "key.change key-grp_ads",
        "key.create key-grp_app",
        "key.create key-grp_web",
        "group.create grp_app",
        "group.create grp_web",
      ],
    ]);
    // Not even where their group is, or where a key came from.
    expect(own[0]!.text).not.toMatch(/grp_org|"grp_ads|name of grp_ads|owner-in-ads/);
    const everything = await exported(world, await world.token("viewer"), "", format);
    for (const outside of [
      "group.freeze grp_org",
      "key.create key-grp_ads",
      "key.create key-null",
      "channel.create main",
      "token.create machine-1",
    ])
      expect(everything.flatMap(changesIn)).toContain(outside);
    for (const query of ["subject=key-grp_org", "subject=main", "action=token.create"])
      expect([query, (await exported(world, eve, query, format)).flatMap(changesIn)]).toEqual([query, []]);
    expect(world.bugs).toEqual([]);
  });

  test("gets the entries of their group alone in the next part too, and none of a longer log counts for the cut", async () => {
    const world = await startAdmin();
    for (const id of ["grp_web", "grp_ads"]) await world.storage.groups.create(id, newGroup(id), [], tester);
    const subjects = await noted(world, 10_001, { group: "grp_web", also: "grp_ads" });
    const parts = await exported(world, await world.token("group_admin", "grp_web"), "action=test.note");
    expect(parts.map(({ entries }) => entries.length)).toEqual([10_000, 1]);
    expect(parts.flatMap(subjectsOf)).toEqual(subjects);
  });
});

interface Noted {
  readonly detail?: AuditEntry["detail"];
  readonly group?: string;
  /** Another group, with as many entries in between. */
  readonly also?: string;
}

/** Writes so many entries, and returns their subjects, newest first. */
async function noted({ storage }: AdminWorld, count: number, { detail = {}, group, also }: Noted = {}): Promise<string[]> {
  const subjects = Array.from({ length: count }, (_, at) => `entry-${at}`);
  await storage.together(async ({ audit }) => {
    for (const subject of subjects) {
      await audit.note("test.note", subject, detail, tester, group);
      if (also !== undefined) await audit.note("test.note", `other-${subject}`, detail, tester, also);
    }
  });
  return subjects.toReversed();
}

interface Part {
  readonly text: string;
  readonly bytes: number;
  readonly entries: readonly Shown[];
  readonly next: string | null;
}

type Shown = Pick<AuditEntryView, "id" | "action" | "subject">;

/** All parts that there are, each one asked for as the one before says. */
async function exported(
  world: AdminWorld,
  headers: Record<string, string>,
  query: string,
  format: AuditFormat = "jsonl",
): Promise<readonly Part[]> {
  const parts: Part[] = [];
  for (let before = ""; parts.length < partsMax;) {
    const called = await world.call("GET", `/admin/api/audit/export?format=${format}&${query}${before}`, { headers });
    const { status, text } = called;
    expect(status).toBe(200);
    const next = called.headers.get("x-sluice-next");
    parts.push({ text, bytes: Buffer.byteLength(text), entries: format === "csv" ? rowsIn(text) : linesIn(text), next });
    if (next === null) return parts;
    before = `&before=${next}`;
  }
  throw new Error(`there are more than ${partsMax} parts`);
}

const partsMax = 20;

function linesIn(text: string): readonly Shown[] {
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Shown);
}

/** Each part is a table of its own, with headings. Columns that may have commas come after these. */
function rowsIn(text: string): readonly Shown[] {
  const [headings, ...rows] = text
    .split("\r\n")
    .slice(0, -1)
    .map((row) => row.split(","));
  expect(headings?.slice(0, 7)).toEqual(["id", "done_at", "actor_kind", "actor", "address", "action", "subject"]);
  return rows.map((cells) => ({ id: cells[0]!, action: cells[5]!, subject: cells[6]! }));
}

const subjectsOf = ({ entries }: Part): string[] => entries.map(({ subject }) => subject);
const changesIn = ({ entries }: Part): string[] => entries.map(({ action, subject }) => `${action} ${subject}`);
