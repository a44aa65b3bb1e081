// Needs: quiet, servers. It compares how long passwords take to be checked, the least of some with the least of others.
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bootstrapLifeMs, prepareBootstrap } from "../../src/admin/login/bootstrap.ts";
import { operatorTokenProblem } from "../../src/admin/login/operator-token.ts";
import { LoginGuard } from "../../src/admin/login/login-guard.ts";
import { hashPassword } from "../../src/admin/login/password.ts";
import { passwordProblem } from "../../src/manage/accounts.ts";
import { StorageError } from "../../src/gateway/storage.ts";
import { codeOf, goodPassword, startAdmin, tester, type AdminWorld, type Called } from "../support/admin.ts";
import { freshDataDir } from "../support/databases.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const login = (world: AdminWorld, name: string, password: string): Promise<Called> =>
  world.call("POST", "/admin/api/login", { body: { name, password } });
const me = (world: AdminWorld, headers: Record<string, string>): Promise<Called> => world.call("GET", "/admin/api/me", { headers });

async function withAnna(): Promise<AdminWorld> {
  const world = await startAdmin();
  await world.account("anna", "admin");
  return world;
}

describe("a log-in", () => {
  test("opens a session with a CSRF token, and is in the audit log", async () => {
    const world = await withAnna();
    const called = await login(world, " Anna ", goodPassword);
    expect(called.json).toMatchObject({ name: "anna", role: "admin", csrf_token: expect.stringMatching(/^[\w-]{43}$/) as string });
    const headers = { cookie: (called.headers.get("set-cookie") ?? "").split(";")[0] ?? "" };
    expect((await me(world, headers)).json).toMatchObject({ kind: "account", name: "anna", role: "admin" });
    const [entry] = await world.storage.audit.list({ action: "login", subject: null, actor: null, sinceMs: null, before: null, limit: 10 });
    expect(entry).toMatchObject({ subject: "anna", actor: { kind: "admin", name: "anna", address: "127.0.0.1" } });
  });

  test("with a wrong name, a wrong password and a disabled account gets one and the same answer", async () => {
    const world = await withAnna();
    await world.account("off", "viewer");
    await world.storage.accounts.change("off", { disabled: true }, tester);
    const answers = [
      await login(world, "anna", "wrong password"),
      await login(world, "nobody", goodPassword),
      await login(world, "off", goodPassword),
    ];
    for (const { status, headers } of answers) expect([status, headers.get("set-cookie")]).toEqual([401, null]);
    expect(new Set(answers.map(({ text }) => text.replace(/req_\w+/, ""))).size).toBe(1);
    expect(codeOf(answers[0]!)).toBe("invalid_login");
  });

  test("S42: takes as long for a name that does not exist", async () => {
    const world = await startAdmin();
    await world.account("anna", "admin", await hashPassword(goodPassword));
    const timeOf = async (name: string): Promise<number> => {
      world.pass(2 * minuteMs);
      const before = performance.now();
      await login(world, name, "wrong password");
      return performance.now() - before;
    };
    const [known, unknown]: [number[], number[]] = [[], []];
    // Without the hash of nobody it would be a tenth, each time; on a busy machine one of the first may be slow.
    for (let round = 0; round < 20 && (round < 6 || Math.min(...unknown) <= Math.min(...known) / 2); round++) {
      known.push(await timeOf("anna"));
      unknown.push(await timeOf("nobody"));
    }
    expect(Math.min(...unknown)).toBeGreaterThan(Math.min(...known) / 2);
    expect(Math.min(...unknown)).toBeLessThan(Math.min(...known) * 2);
  });

  test("that fails is logged with the name only if the account exists", async () => {
    const world = await withAnna();
    await login(world, "anna", "wrong password");
    await login(world, "my secret password", "wrong password");
    const entries = await world.storage.audit.list({
      action: "login.failed",
      subject: null,
      actor: null,
      sinceMs: null,
      before: null,
      limit: 10,
    });
    expect(entries.map(({ subject }) => subject).toSorted()).toEqual(["anna", "unknown"]);
    expect(JSON.stringify(entries)).not.toContain("secret");
  });

  test("S42: may be tried five times a minute from one network, right or wrong, also concurrently", async () => {
    const world = await withAnna();
    const tries = await Promise.all(Array.from({ length: 12 }, () => login(world, "anna", "wrong password")));
    expect(tries.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      401,
      401,
      401,
      401,
      401,
      ...Array.from({ length: 7 }, () => 429),
    ]);
    const refused = await login(world, "anna", goodPassword);
    expect([refused.status, codeOf(refused)]).toEqual([429, "too_many_attempts"]);
    const seconds = Number(refused.headers.get("retry-after"));
    expect(seconds).toBeGreaterThan(50);
    expect(seconds).toBeLessThanOrEqual(60);
    world.pass(minuteMs);
    expect((await login(world, "anna", goodPassword)).status).toBe(200);
  });

  test("is limited by the address of the connection, whatever a header claims", async () => {
    const world = await withAnna();
    for (let each = 0; each < 5; each++) await login(world, "anna", "wrong password");
    const headers = { "x-forwarded-for": "9.9.9.9" };
    expect((await world.call("POST", "/admin/api/login", { body: { name: "anna", password: goodPassword }, headers })).status).toBe(429);
  });

  test("while the store is down says so, and does not count as a failed attempt", async () => {
    let down = true;
    const world = await startAdmin({
      storage: (real) => ({
        ...real,
        accounts: new Proxy(real.accounts, {
          get: (target, name) => {
            if (down) return () => Promise.reject(new StorageError("unavailable", "10.0.0.1 refused"));
            const value: unknown = Reflect.get(target, name);
            return typeof value === "function" ? (value.bind(target) as unknown) : value;
          },
        }),
      }),
    });
    const called = await login(world, "anna", goodPassword);
    expect([called.status, codeOf(called)]).toEqual([503, "store_unavailable"]);
    expect(called.text).not.toContain("10.0.0.1");
    down = false;
    await world.account("anna", "admin");
    expect((await login(world, "anna", goodPassword)).status).toBe(200);
  });
});

describe("the login guard", () => {
  /** A failed attempt from a place of its own, if it may be made. */
  const failFrom = (guard: LoginGuard, address: string): number | null => {
    const waitMs = guard.enter(address);
    if (waitMs === null) guard.leave(false);
    return waitMs;
  };

  test("S42: slows all attempts down when many networks guess, and recovers", () => {
    let now = 0;
    const guard = new LoginGuard(() => now);
    let passed = 0;
    for (let each = 0; each < 10_000; each++) {
      now += 10;
      if (failFrom(guard, `10.0.${each >> 8}.${each & 255}`) === null) passed++;
    }
    // Twenty are free; then the pauses double up to a quarter of a minute.
    expect(passed).toBeLessThan(40);
    expect(guard.enter("192.168.0.1")).toBeGreaterThan(0);
    now += 15_001;
    expect(guard.enter("192.168.0.1")).toBeNull();
    guard.leave(true);
    now += 11 * minuteMs;
    for (let each = 0; each < 5; each++) expect(failFrom(guard, `10.1.0.${each}`)).toBeNull();
  });

  test("counts the addresses of one network together", () => {
    const guard = new LoginGuard(() => 0);
    for (let each = 0; each < 5; each++) expect(failFrom(guard, `2001:db8:1:2:${each}::1`)).toBeNull();
    expect(failFrom(guard, "2001:DB8:1:2::9")).toBeGreaterThan(0);
    expect(failFrom(guard, "2001:db8:1:3::9")).toBeNull();
    for (let each = 0; each < 5; each++) expect(failFrom(guard, "::ffff:10.0.0.1")).toBeNull();
    expect(failFrom(guard, "10.0.0.1")).toBeGreaterThan(0);
  });

  test("limits concurrent checks, because each is costly on purpose", () => {
    const guard = new LoginGuard(() => 0);
    const entered = Array.from({ length: 100 }, (_, each) => guard.enter(`10.0.0.${each}`)).filter((waitMs) => waitMs === null);
    expect(entered.length).toBe(8);
    guard.leave(true);
    expect(guard.enter("10.0.1.1")).toBeNull();
  });
});

describe("S49: a session", () => {
  test("ends half an hour after the last request", async () => {
    const world = await withAnna();
    const headers = await world.session("anna");
    for (let each = 0; each < 5; each++) {
      world.pass(29 * minuteMs);
      expect((await me(world, headers)).status).toBe(200);
    }
    world.pass(30 * minuteMs);
    const called = await me(world, headers);
    expect([called.status, codeOf(called)]).toEqual([401, "session_ended"]);
    world.pass(-10 * minuteMs);
    expect((await me(world, headers)).status).toBe(401);
  });

  test("ends twelve hours after it began, however busy", async () => {
    const world = await withAnna();
    const headers = await world.session("anna");
    for (let each = 0; each < 35; each++) {
      world.pass(20 * minuteMs);
      expect((await me(world, headers)).status).toBe(200);
    }
    world.pass(20 * minuteMs);
    expect((await me(world, headers)).status).toBe(401);
  });

  test("ends with the log-out, for good, and only that one", async () => {
    const world = await withAnna();
    const [one, other] = [await world.session("anna"), await world.session("anna")];
    const out = await world.call("POST", "/admin/api/logout", { headers: one, body: {} });
    expect([out.status, out.headers.get("set-cookie")]).toEqual([200, "sluice_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict"]);
    expect((await me(world, one)).status).toBe(401);
    expect((await me(world, other)).status).toBe(200);
  });

  test("is a new one at each log-in, whatever cookie the browser came with", async () => {
    const world = await withAnna();
    const planted = `sluice_session=${"A".repeat(43)}`;
    const called = await world.call("POST", "/admin/api/login", {
      headers: { cookie: planted },
      body: { name: "anna", password: goodPassword },
    });
    expect(called.headers.get("set-cookie")).not.toContain("A".repeat(43));
    expect((await me(world, { cookie: planted })).status).toBe(401);
  });

  test("ends when its account is disabled, demoted or removed", async () => {
    const world = await withAnna();
    for (const name of ["ben", "eve", "kim"]) await world.account(name, "admin");
    const [ben, eve, kim] = [await world.session("ben"), await world.session("eve"), await world.session("kim")];
    const headers = await world.session("anna");
    await world.call("PATCH", "/admin/api/accounts/ben", { headers, body: { disabled: true } });
    await world.call("PATCH", "/admin/api/accounts/eve", { headers, body: { role: "viewer" } });
    await world.call("DELETE", "/admin/api/accounts/kim", { headers });
    for (const session of [ben, eve, kim]) expect((await me(world, session)).status).toBe(401);
  });

  test("stays valid while the store is read-only", async () => {
    const full = (): Promise<never> => Promise.reject(new StorageError("full", "no room"));
    let broken = false;
    const world = await startAdmin({
      storage: (real) => ({
        ...real,
        accounts: new Proxy(real.accounts, {
          get: (target, name) => {
            if (broken && name === "seen") return full;
            const value: unknown = Reflect.get(target, name);
            return typeof value === "function" ? (value.bind(target) as unknown) : value;
          },
        }),
      }),
    });
    await world.account("anna", "admin");
    const headers = await world.session("anna");
    broken = true;
    world.pass(5 * minuteMs);
    expect((await me(world, headers)).status).toBe(200);
  });
});

describe("a password", () => {
  const change = (world: AdminWorld, headers: Record<string, string>, body: object): Promise<Called> =>
    world.call("POST", "/admin/api/password", { headers, body });

  test("S49: is changed with the old one, which ends all sessions", async () => {
    const world = await withAnna();
    const [one, other] = [await world.session("anna"), await world.session("anna")];
    const wrong = await change(world, one, { current: "not this one", password: "four other quiet words" });
    expect([wrong.status, codeOf(wrong)]).toEqual([400, "invalid_value"]);
    expect((await change(world, one, { current: goodPassword, password: "four other quiet words" })).status).toBe(200);
    for (const headers of [one, other]) expect((await me(world, headers)).status).toBe(401);
    world.pass(minuteMs);
    expect((await login(world, "anna", goodPassword)).status).toBe(401);
    expect((await login(world, "anna", "four other quiet words")).status).toBe(200);
  });

  test("of the caller cannot be changed without the old one, and a token has none", async () => {
    const world = await withAnna();
    const headers = await world.session("anna");
    const around = await world.call("PATCH", "/admin/api/accounts/anna", { headers, body: { password: "four other quiet words" } });
    expect([around.status, codeOf(around)]).toEqual([400, "own_password"]);
    expect((await change(world, await world.token("admin"), { current: "x", password: "four other quiet words" })).status).toBe(400);
  });

  test.each([
    "short",
    "elevenchars",
    "anna-anna-anna",
    "annaannaannaanna",
    "password12345",
    "Passw0rd1234!",
    "aaaaaaaaaaaaaaaa",
    "abababababababab",
    "123456789012345",
    "abcdefghijklmnop",
    "qwertyuiop123",
    "admin-admin-admin",
    "changemechangeme",
  ])("that is easily guessed is refused: %p", (password) => {
    expect(passwordProblem(password, "anna")).toMatchObject({ code: "invalid_value", field: "password" });
  });

  test.each([goodPassword, "correct horse battery", "xK9#mQ2$vL7p", "größe-über-straße", "anna likes green tea"])(
    "that is fine is taken: %p",
    (password) => {
      expect(passwordProblem(password, "anna")).toBeNull();
    },
  );

  test("S51: is not in the store, and neither is a session, a token or the bootstrap token", async () => {
    const world = await withAnna();
    const path = (await prepared(await startAdmin({ dataDir: world.dataDir }), world.dataDir))?.path;
    expect(path).toBeUndefined();
    const headers = await world.session("anna");
    const made = await world.call("POST", "/admin/api/tokens", { headers, body: { name: "ci", role: "admin" } });
    const secrets = [goodPassword, headers["cookie"]?.split("=")[1] ?? "", (made.json as { token: string }).token];
    const files = readdirSync(world.dataDir).filter((name) => name.startsWith("sluice.db"));
    expect(files).not.toEqual([]);
    for (const file of files) {
      const bytes = readFileSync(join(world.dataDir, file));
      for (const secret of secrets) {
        expect(secret.length).toBeGreaterThan(20);
        expect(bytes.includes(secret)).toBe(false);
      }
    }
  });
});

function prepared(world: AdminWorld, dataDir: string): Promise<{ readonly path: string } | null> {
  const { adminDigest: digest, wallMs, randomBytes } = world.services;
  return prepareBootstrap({ dataDir, accounts: world.storage.accounts, digest, wallMs, random: randomBytes });
}

describe("S41: the first account", () => {
  const claim = (world: AdminWorld, token: string, name = "anna"): Promise<Called> =>
    world.call("POST", "/admin/api/bootstrap", { body: { token, name, password: goodPassword } });

  async function fresh(): Promise<{ world: AdminWorld; path: string; token: string }> {
    const dataDir = freshDataDir();
    const world = await startAdmin({ dataDir, listen: { bootstrapFile: join(dataDir, "bootstrap-token") } });
    const { path } = (await prepared(world, dataDir))!;
    return { world, path, token: readFileSync(path, "utf8").trim() };
  }

  test("is created with the token from a file that only its owner can read, which is then removed", async () => {
    const { world, path, token } = await fresh();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(Buffer.from(token, "base64url").length).toBe(32);
    expect(readdirSync(world.dataDir).filter((name) => name.startsWith("bootstrap"))).toEqual(["bootstrap-token"]);
    for (const file of readdirSync(world.dataDir).filter((name) => name.startsWith("sluice.db"))) {
      expect(readFileSync(join(world.dataDir, file)).includes(token)).toBe(false);
    }
    const made = await claim(world, token);
    expect([made.status, made.json]).toEqual([201, { name: "anna", role: "admin" }]);
    expect(existsSync(path)).toBe(false);
    expect((await login(world, "anna", goodPassword)).status).toBe(200);
  });

  test("is created once: a second and a concurrent use of the token are refused", async () => {
    const { world, token } = await fresh();
    const both = await Promise.all([claim(world, token, "anna"), claim(world, token, "eve")]);
    expect(both.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([201, 401]);
    const again = await claim(world, token, "mallory");
    expect([again.status, codeOf(again)]).toEqual([401, "invalid_bootstrap_token"]);
    expect(await world.storage.accounts.count()).toBe(1);
  });

  test("is not created after an hour, nor with another token", async () => {
    const { world, token } = await fresh();
    expect((await claim(world, `${token}x`)).status).toBe(401);
    expect((await claim(world, "' or 1=1 --")).status).toBe(401);
    world.pass(bootstrapLifeMs);
    expect((await claim(world, token)).status).toBe(401);
    expect(await world.storage.accounts.count()).toBe(0);
  });

  test("is created with the newest token only", async () => {
    const { world, path, token } = await fresh();
    await prepared(world, world.dataDir);
    const newer = readFileSync(path, "utf8").trim();
    expect((await claim(world, token)).status).toBe(401);
    expect((await claim(world, newer)).status).toBe(201);
  });

  test("does not spend the token on a password that is refused", async () => {
    const { world, token } = await fresh();
    const weak = await world.call("POST", "/admin/api/bootstrap", { body: { token, name: "anna", password: "anna-anna-anna" } });
    expect(weak.status).toBe(400);
    expect((await claim(world, token)).status).toBe(201);
  });

  test("leaves no token if there are accounts, and does not reuse an old readable file", async () => {
    const { world, path } = await fresh();
    writeFileSync(`${path}.new`, "old", { mode: 0o644 });
    await prepared(world, world.dataDir);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    await world.account("anna", "admin");
    expect(await prepared(world, world.dataDir)).toBeNull();
    expect(existsSync(path)).toBe(false);
  });

  test("cannot be guessed at speed", async () => {
    const { world, token } = await fresh();
    for (let each = 0; each < 5; each++) await claim(world, "wrong");
    expect((await claim(world, token)).status).toBe(429);
  });
});

describe("S40: a token given at the start", () => {
  test.each([
    ["admin", "shorter than 32"],
    ["", "shorter than 32"],
    ["123456", "shorter than 32"],
    ["a".repeat(40), "guessed"],
    ["password".repeat(5), "guessed"],
    ["0123456789abcdef0123456789abcdef", "guessed"],
    ["changemechangemechangemechangemechangeme", "guessed"],
    ["admin-token-admin-token-admin-token-1", "guessed"],
    ["your-token-here-your-token-here-your-token", "guessed"],
    ["f3a9c1d27be84f60 a5d8e21c97b3046f", "header"],
    ["sk-gw_f3a9c1d27be84f60a5d8e21c97b3046f", "client key"],
  ])("%p is refused, and the text does not repeat it", (token, words) => {
    const problem = operatorTokenProblem(token);
    expect(problem).toContain(words);
    expect(problem).toContain("openssl rand");
    if (token.length > 8) expect(problem).not.toContain(token);
  });

  test("is taken when it is random, in whichever usual form", () => {
    for (let round = 0; round < 2000; round++) {
      const bytes = Buffer.from(crypto.getRandomValues(new Uint8Array(32)));
      for (const token of [
        bytes.toString("hex"),
        bytes.subarray(0, 16).toString("hex"),
        bytes.toString("base64url"),
        bytes.subarray(0, 24).toString("base64"),
      ]) {
        if (operatorTokenProblem(token) !== null) throw new Error(`refused: ${token}`);
      }
    }
  });
});

test("sessions last as long as documented", async () => {
  const world = await withAnna();
  const called = await login(world, "anna", goodPassword);
  const expires = Date.parse((called.json as { expires_at: string }).expires_at);
  expect(Math.abs(expires - world.services.wallMs() - 12 * hourMs)).toBeLessThan(5000);
});
