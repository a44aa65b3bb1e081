import { describe, expect, test } from "bun:test";
import {
  inUseProblem,
  readBackup,
  removeBackup,
  startBackup,
  type BackupContext,
  type KeptBackups,
  type StoreMaintenance,
} from "../../../src/manage/backup.ts";

function maintenance(isInUse: boolean): StoreMaintenance {
  const unused = (): never => {
    throw new Error("only isInUse is called");
  };
  return {
    dataDir: "/data",
    masterKeyGiven: false,
    masterKeyText: unused,
    backup: unused,
    restore: unused,
    rotateMasterKey: unused,
    isInUse: () => isInUse,
  };
}

test("the master key is not replaced while a gateway uses the store", () => {
  expect(inUseProblem(maintenance(true))).toMatchObject({
    code: "conflict",
    message: "A gateway is using /data. Stop all gateways of this store first.",
  });
  expect(inUseProblem(maintenance(false))).toBeNull();
});

describe("a gateway that keeps backups", () => {
  const name = "sluice-2026-11-17-18-00-05.backup";
  const by = { kind: "admin", name: "ada" } as const;

  function world(given: Partial<KeptBackups> = {}) {
    const done: string[] = [];
    const backups: KeptBackups = {
      folder: "/data/backups",
      masterKeyPlace: "/data/master-key",
      impossible: null,
      instead: null,
      list: () => [],
      state: () => ({ running: null, failure: null }),
      start: (one) => void done.push(`start ${one}`),
      content: (one) => (one === name || !one.startsWith("sluice-") ? new Blob(["content"]) : null),
      remove: (one) => void done.push(`remove ${one}`),
      ...given,
    };
    const note = async (action: string, subject: string): Promise<void> => void done.push(`note ${action} ${subject}`);
    const context = { backups, storage: { audit: { note } }, wallMs: () => Date.UTC(2026, 10, 17, 18, 0, 5, 7) };
    return { done, context: context as unknown as BackupContext };
  }

  test("writes into the audit log that one is made, read or deleted, before it is", async () => {
    const { done, context } = world();
    expect(await startBackup(context, by)).toBe(name);
    expect(await readBackup(context, name, by)).toBeInstanceOf(Blob);
    expect(await removeBackup(context, name, by)).toBeNull();
    expect(done).toEqual([
      `note backup.create ${name}`,
      `start ${name}`,
      `note backup.download ${name}`,
      `note backup.remove ${name}`,
      `remove ${name}`,
    ]);
  });

  test.each([
    [
      "another is being made",
      { state: () => ({ running: { doing: "copying" as const, doneBytes: 0, totalBytes: 1 }, failure: null }) },
      "already",
    ],
    ["it has twenty", { list: () => Array.from({ length: 20 }, () => ({ name, bytes: 1, madeMs: 1 })) }, "delete one first"],
    ["its store is elsewhere", { impossible: "Use pg_dump." }, "Use pg_dump."],
  ] as const)("makes none while %s, and says why", async (_, given, words) => {
    const { done, context } = world(given);
    expect(await startBackup(context, by)).toMatchObject({ code: "conflict", message: expect.stringContaining(words) });
    expect(done).toEqual([]);
  });

  test.each(["master-key", "../master-key", "..", `${name}/..`, `x${name}`, `${name}.part`, "sluice.db"])(
    "neither shows nor deletes the file %j, which is no backup",
    async (other) => {
      const { done, context } = world();
      expect(await readBackup(context, other, by)).toMatchObject({ code: "not_found" });
      expect(await removeBackup(context, other, by)).toMatchObject({ code: "not_found" });
      expect(done).toEqual([]);
    },
  );
});
