// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { resourceRoutes } from "../../src/admin/routes/routes.ts";
import { SqliteDatabase } from "../../src/store/sqlite/sqlite.ts";
import { sql } from "../../src/store/sql.ts";
import { callAdmin, goodPassword, openListener, startAdmin, type AdminWorld, type Called } from "../support/admin.ts";

// Passwords are costly on purpose.
setDefaultTimeout(60_000);

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

interface Stage {
  readonly world: AdminWorld;
  /** The headers of the session that is to end. */
  readonly own: Record<string, string>;
  /** Those of an admin that stays. */
  readonly other: Record<string, string>;
}

/** Everything that ends a session. */
const ends: readonly (readonly [string, (stage: Stage) => Promise<Called | null>])[] = [
  ["a log-out", ({ world, own }) => world.call("POST", "/admin/api/logout", { headers: own, body: {} })],
  [
    "a new password of one's own",
    ({ world, own }) =>
      world.call("POST", "/admin/api/password", { headers: own, body: { current: goodPassword, password: "four other quiet words" } }),
  ],
  [
    "a new password that an admin sets",
    ({ world, other }) => world.call("PATCH", "/admin/api/accounts/anna", { headers: other, body: { password: "four other quiet words" } }),
  ],
  ["another role", ({ world, other }) => world.call("PATCH", "/admin/api/accounts/anna", { headers: other, body: { role: "viewer" } })],
  ["being disabled", ({ world, other }) => world.call("PATCH", "/admin/api/accounts/anna", { headers: other, body: { disabled: true } })],
  ["being removed", ({ world, other }) => world.call("DELETE", "/admin/api/accounts/anna", { headers: other })],
  [
    "half an hour without a request",
    async ({ world }) => {
      world.pass(30 * minuteMs);
      return null;
    },
  ],
  [
    "twelve hours, however busy",
    async ({ world, own }) => {
      for (let each = 0; each < 24; each++) {
        world.pass(29 * minuteMs);
        expect((await world.call("GET", "/admin/api/me", { headers: own })).status).toBe(200);
      }
      world.pass(12 * hourMs - 24 * 29 * minuteMs);
      return null;
    },
  ],
];

describe("S49: a session that was ended", () => {
  test.each(ends)("by %s opens nothing any more, on no route and in no process", async (_, end) => {
    const world = await startAdmin();
    // The last admin could neither go nor become less.
    for (const name of ["anna", "ben"]) await world.account(name, "admin");
    const own = await world.session("anna");
    // Another replica over the same store.
    const replica = openListener({ services: world.services, routes: resourceRoutes, onBug: () => {} });
    try {
      const elsewhere = (): Promise<{ readonly status: number }> => callAdmin(replica.url, "GET", "/admin/api/me", { headers: own });
      expect((await elsewhere()).status).toBe(200);
      const ended = await end({ world, own, other: await world.token("admin") });
      expect(ended?.status ?? 200).toBe(200);
      for (const { method, path, access } of world.listener.routes) {
        if (access === "public") continue;
        const filled = path.replaceAll(/\{\w+\}/g, "something");
        const called = await world.call(method, filled, { headers: own, ...(method === "GET" ? {} : { body: {} }) });
        expect([method, path, called.status]).toEqual([method, path, 401]);
      }
      expect((await elsewhere()).status).toBe(401);
    } finally {
      await replica.close();
    }
  });
});

test("S49: a revoked admin token does not work from the next request on, and a new one of the same name is another", async () => {
  const world = await startAdmin();
  const admin = await world.token("admin");
  const made = await world.call("POST", "/admin/api/tokens", { headers: admin, body: { name: "ci", role: "viewer" } });
  const headers = { authorization: `Bearer ${(made.json as { readonly token: string }).token}` };
  expect((await world.call("GET", "/admin/api/me", { headers })).status).toBe(200);
  await world.call("DELETE", "/admin/api/tokens/ci", { headers: admin });
  expect((await world.call("GET", "/admin/api/me", { headers })).status).toBe(401);
  await world.call("POST", "/admin/api/tokens", { headers: admin, body: { name: "ci", role: "viewer" } });
  expect((await world.call("GET", "/admin/api/me", { headers })).status).toBe(401);
});

test("S49: sessions that are over are not kept", async () => {
  const world = await startAdmin();
  await world.account("anna", "admin");
  for (let each = 0; each < 8; each++) {
    await world.session("anna");
    world.pass(minuteMs);
  }
  world.pass(31 * minuteMs);
  await world.session("anna");
  const database = new SqliteDatabase(world.storeFile);
  expect(await database.all<object>(sql`select count(*) as n from sessions`)).toEqual([{ n: 1 }]);
  await database.close();
});
