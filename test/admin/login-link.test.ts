// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, test } from "bun:test";
import { createLoginLink, loginLinkLifeMs } from "../../src/manage/login-link.ts";
import { codeOf, startAdmin, tester, type AdminWorld, type Called } from "../support/admin.ts";

let world: AdminWorld;

beforeAll(async () => {
  world = await startAdmin();
  await world.account("ada", "admin");
  await world.account("ben", "viewer");
});

async function link(name: string): Promise<string> {
  const account = (await world.storage.accounts.list()).find((one) => one.name === name);
  if (account === undefined) throw new Error(`no account ${name}`);
  return createLoginLink(world.services, account, tester);
}

const use = (secret: string): Promise<Called> => world.call("POST", "/admin/api/login/link", { body: { secret } });

describe("a link that signs in", () => {
  test("opens a session of its account, with that account's role", async () => {
    const called = await use(await link("ben"));
    expect(called.json).toMatchObject({ name: "ben", role: "viewer" });
    const cookie = (called.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
    expect((await world.call("GET", "/admin/api/me", { headers: { cookie } })).json).toMatchObject({ name: "ben", role: "viewer" });
  });

  test("works once, also if two use it at the same moment", async () => {
    const secret = await link("ada");
    const both = await Promise.all([use(secret), use(secret)]);
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 401]);
    const third = await use(secret);
    expect([third.status, codeOf(third)]).toEqual([401, "invalid_login"]);
  });

  test("is neither a cookie nor a token", async () => {
    const secret = await link("ada");
    for (const headers of [{ cookie: `sluice_session=${secret}` }, { authorization: `Bearer ${secret}` }]) {
      expect((await world.call("GET", "/admin/api/me", { headers })).status).toBe(401);
    }
  });

  test("cannot be used from a page of another site", async () => {
    const secret = await link("ada");
    const called = await world.call("POST", "/admin/api/login/link", { body: { secret }, headers: { origin: "https://evil.example" } });
    expect([called.status, codeOf(called)]).toEqual([403, "csrf"]);
  });

  test("expires, and nothing else opens a session", async () => {
    const own = await startAdmin();
    await own.account("ada", "admin");
    const [account] = await own.storage.accounts.list();
    const secret = await createLoginLink(own.services, account!, tester);
    own.pass(loginLinkLifeMs);
    expect((await own.call("POST", "/admin/api/login/link", { body: { secret } })).status).toBe(401);
    expect((await own.call("POST", "/admin/api/login/link", { body: { secret: "x" } })).status).toBe(401);
  });
});
