// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, test } from "bun:test";
import { codeOf, goodPassword, startAdmin, type AdminWorld, type Called } from "../support/admin.ts";

const path = "/admin/api/tokens";
let world: AdminWorld;
let browser: Record<string, string>;
let made = 0;

beforeAll(async () => {
  world = await startAdmin();
  await world.account("anna", "admin");
  browser = await world.session("anna");
});

/** The request of a browser that is logged in, with some headers changed or left out. */
function post(changed: Readonly<Record<string, string | null>>): Promise<Called> {
  const headers = Object.fromEntries(
    Object.entries({ ...browser, ...changed }).filter((entry): entry is [string, string] => entry[1] !== null),
  );
  return world.call("POST", path, { raw: JSON.stringify({ name: `t${++made}`, role: "viewer" }), headers });
}

describe("S43: a change with a session's cookie", () => {
  test("is made for a page of the same origin", async () => {
    expect((await post({})).status).toBe(201);
    expect((await post({ "sec-fetch-site": "same-origin" })).status).toBe(201);
    expect((await post({ "sec-fetch-site": "same-origin", origin: null })).status).toBe(201);
  });

  const forged: readonly (readonly [string, Readonly<Record<string, string | null>>])[] = [
    [
      "a form of another site",
      {
        "content-type": "application/x-www-form-urlencoded",
        "x-csrf-token": null,
        origin: "https://evil.example",
        "sec-fetch-site": "cross-site",
      },
    ],
    ["JSON sent as text", { "content-type": "text/plain" }],
    ["a form's type", { "content-type": "multipart/form-data; boundary=x" }],
    ["no type", { "content-type": null }],
    ["no token", { "x-csrf-token": null }],
    ["an empty token", { "x-csrf-token": "" }],
    ["a wrong token", { "x-csrf-token": "A".repeat(43) }],
    ["neither Origin nor Sec-Fetch-Site", { origin: null }],
    ["the origin null", { origin: "null" }],
    ["another site's origin", { origin: "https://evil.example" }],
    ["a subdomain's origin", { origin: "http://sub.127.0.0.1" }],
    ["another port's origin", { origin: "http://127.0.0.1:1" }],
    ["another scheme's origin", { origin: "https://HOST" }],
    ["a page of another site", { "sec-fetch-site": "cross-site" }],
    ["a page of a neighbour", { "sec-fetch-site": "same-site" }],
    ["something typed into the address bar", { "sec-fetch-site": "none" }],
  ];
  test.each(forged)("is refused for %s, and changes nothing", async (_, changed) => {
    const origin = changed["origin"]?.replace("HOST", new URL(world.url).host);
    const before = (await world.storage.accounts.tokens()).length;
    const called = await post(origin === undefined ? changed : { ...changed, origin });
    expect([called.status, codeOf(called)]).toEqual([403, "csrf"]);
    expect((await world.storage.accounts.tokens()).length).toBe(before);
  });

  test("needs the token of this session, not of another one of the same account", async () => {
    const other = await world.session("anna");
    expect((await post({ "x-csrf-token": other["x-csrf-token"] ?? "" })).status).toBe(403);
    expect((await post({ ...other })).status).toBe(201);
  });

  test("cannot be made with GET", async () => {
    const { cookie = "" } = browser;
    const called = await world.call("GET", "/admin/api/me", { headers: { cookie, "x-http-method-override": "POST" } });
    expect(called.status).toBe(200);
    for (const method of ["PUT", "PATCH"]) expect((await world.call(method, path, { headers: { cookie }, body: {} })).status).toBe(405);
  });
});

test("S43: every route that changes something asks for it", async () => {
  const { cookie = "" } = browser;
  const mutating = world.listener.routes.filter(({ method, access }) => method !== "GET" && access !== "public");
  expect(mutating.length).toBeGreaterThan(5);
  for (const { method, path } of mutating) {
    const called = await world.call(method, path.replaceAll(/\{\w+\}/g, "x"), { headers: { cookie, origin: world.url }, body: {} });
    expect([method, path, called.status, codeOf(called)]).toEqual([method, path, 403, "csrf"]);
  }
});

test("a token in a header needs no CSRF protection: no browser sends one by itself", async () => {
  const headers = await world.token("admin");
  expect((await world.call("POST", path, { headers, body: { name: "by-machine", role: "viewer" } })).status).toBe(201);
});

test("S43: another site cannot log a browser in, but a program may", async () => {
  const body = { name: "anna", password: goodPassword };
  const { status, headers } = await world.call("POST", "/admin/api/login", { body, headers: { origin: "https://evil.example" } });
  expect([status, headers.get("set-cookie")]).toEqual([403, null]);
  expect((await world.call("POST", "/admin/api/login", { body, headers: { "sec-fetch-site": "cross-site" } })).status).toBe(403);
  expect((await world.call("POST", "/admin/api/login", { body })).status).toBe(200);
});

describe("S43: the cookie", () => {
  const attributes = async (world: AdminWorld): Promise<string> => {
    await world.account("ben", "viewer");
    const called = await world.call("POST", "/admin/api/login", { body: { name: "ben", password: goodPassword } });
    return called.headers.get("set-cookie") ?? "";
  };

  test("is not available to scripts and other sites", async () => {
    expect(await attributes(world)).toMatch(/^sluice_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/);
  });

  test("behind TLS is bound to it, and to this host", async () => {
    const secure = await startAdmin({ listen: { secure: true } });
    const cookie = await attributes(secure);
    expect(cookie).toMatch(/^__Host-sluice_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict; Secure$/);
    const value = cookie.split(";")[0] ?? "";
    expect((await secure.call("GET", "/admin/api/me", { headers: { cookie: value } })).status).toBe(200);
    // The name without the prefix could have been set by a neighbour.
    expect((await secure.call("GET", "/admin/api/me", { headers: { cookie: value.replace("__Host-", "") } })).status).toBe(401);
  });

  test("that is sent twice with different values is rejected", async () => {
    const { cookie = "" } = browser;
    const other = (await world.session("ben"))["cookie"] ?? "";
    expect((await world.call("GET", "/admin/api/me", { headers: { cookie: `${cookie}; ${other}` } })).status).toBe(401);
    expect((await world.call("GET", "/admin/api/me", { headers: { cookie: `theme=dark; ${cookie}; x` } })).status).toBe(200);
  });

  test("is ignored if there is a token", async () => {
    const { cookie = "" } = browser;
    expect((await world.call("GET", "/admin/api/me", { headers: { cookie, authorization: "Bearer nonsense" } })).status).toBe(401);
  });
});
