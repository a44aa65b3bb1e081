// Needs: servers. It uses a real PostgreSQL or Redis.
import { expect, setDefaultTimeout, test } from "bun:test";
import { hostname } from "node:os";
import { userName } from "../../src/cli/user-name.ts";
import { CommandLine } from "../support/command-line.ts";
import { ada } from "../support/storage-world.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

interface Entry {
  readonly id: string;
  readonly done_at: string;
  readonly actor: { readonly kind: string; readonly name: string; readonly address: string | null };
  readonly action: string;
  readonly subject: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

test("every change on the command line is in the audit log, newest first, with who made it", async () => {
  const cli = new CommandLine();
  const { id } = await cli.json<{ id: string }>("keys", "create", "laptop");
  await cli.json("keys", "limits", "laptop", "--rpm", "5");
  await cli.json("keys", "rotate", "laptop");
  await cli.json("prices", "set", "m", "--input", "1");
  await cli.json("keys", "revoke", "laptop");
  const { code, out } = await cli.run(["audit", "--json"]);
  const entries = JSON.parse(out) as Entry[];
  expect([code, entries.map(({ action }) => action)]).toEqual([0, ["key.revoke", "price.set", "key.rotate", "key.change", "key.create"]]);
  expect(entries.at(-1)).toMatchObject({ subject: id, actor: { kind: "cli", name: userName(), address: hostname() } });
  expect(Math.abs(Date.parse(entries[0]?.done_at ?? "") - Date.now())).toBeLessThan(60_000);
  expect(userName()).not.toBe("");

  const bySubject = await cli.json<Entry[]>("audit", "--subject", "laptop", "--limit", "2");
  expect(bySubject.map(({ action }) => action)).toEqual(["key.revoke", "key.rotate"]);
  expect((await cli.json<Entry[]>("audit", "--action", "price.set")).length).toBe(1);
  expect(await cli.json<Entry[]>("audit", "--actor", "nobody-of-that-name")).toEqual([]);
  expect((await cli.json<Entry[]>("audit", "--since", "1h")).length).toBe(5);
  expect(await cli.json<Entry[]>("audit", "--since", "2099-01-01")).toEqual([]);
});

test("a long audit log is read page by page", async () => {
  const cli = new CommandLine();
  await cli.withStorage(async ({ audit }) => {
    for (let at = 0; at < 450; at++) await audit.note("test.note", `subject-${at}`, {}, { ...ada, address: "192.0.2.1" });
  });
  const entries = await cli.json<Entry[]>("audit", "--limit", "430");
  expect(new Set(entries.map(({ id }) => id)).size).toBe(430);
  expect(entries[0]?.subject).toBe("subject-449");
  const { out } = await cli.here(["audit", "--limit", "1"]);
  expect(out.split("\n")).toEqual([expect.stringMatching(/^AT +BY +ACTION +SUBJECT/), expect.stringContaining("cli ada (192.0.2.1)"), ""]);
});

test("an entry of a person of a provider tells who it was, also in the table and in CSV, whatever they call themselves", async () => {
  const cli = new CommandLine();
  const person = { issuer: "https://login.example.com", subject: "00u-ada" };
  await cli.withStorage(async ({ audit }) => {
    await audit.note("test.note", "s", {}, { kind: "admin", name: "oidc:ada", address: "192.0.2.1", person });
    await audit.note("test.note", "s", {}, { kind: "admin", name: "local", address: "192.0.2.1" });
  });
  const lines = (await cli.here(["audit"])).out.split("\n");
  expect(lines[1]).toContain("admin local (192.0.2.1) ");
  expect(lines[2]).toContain("admin oidc:ada (00u-ada of https://login.example.com, 192.0.2.1) ");
  const [headings = "", local, ada] = (await cli.here(["audit", "--format", "csv"])).out.split(/\r?\n/);
  expect(headings).toEndWith(",actor_issuer,actor_subject");
  expect([local, ada]).toEqual([
    expect.stringMatching(/,admin,local,192\.0\.2\.1,.*,,$/) as string,
    expect.stringMatching(/,admin,oidc:ada,192\.0\.2\.1,.*,https:\/\/login\.example\.com,00u-ada$/) as string,
  ]);
});

test("sluice audit undo takes a change back, and says why where it cannot", async () => {
  const cli = new CommandLine();
  await cli.json("keys", "create", "desk", "--rpm", "60");
  await cli.json("keys", "limits", "desk", "--rpm", "600");
  const [edit] = await cli.json<readonly { readonly id: string }[]>("audit", "--subject", "desk", "--action", "key.change");
  const undone = await cli.here(["audit", "undo", edit?.id ?? "", "--json"]);
  expect([undone.code, undone.err]).toEqual([0, expect.stringContaining("limits.requests: 60 → 600")]);
  expect(JSON.parse(undone.out)).toMatchObject({ undone: edit?.id, action: "key.change" });
  expect(await cli.json("keys", "show", "desk")).toMatchObject({ limits: { rpm: 60 } });
  const again = await cli.here(["audit", "undo", edit?.id ?? ""]);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining("has changed again since")]);
  expect((await cli.here(["audit", "undo", "nothing"])).code).toBe(1);
});
