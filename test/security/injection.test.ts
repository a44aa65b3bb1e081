// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import type { AdminRoute } from "../../src/admin/route.ts";
import { StorageError, type Storage } from "../../src/gateway/storage.ts";
import { unlimited } from "../../src/limits/limits.ts";
import type { Database } from "../../src/store/database.ts";
import { Sql, sql } from "../../src/store/sql.ts";
import { makeStorage } from "../../src/store/storage.ts";
import { makeChannelSecrets } from "../../src/store/secrets/channel-secrets.ts";
import { goodPassword, startAdmin, tester, type AdminWorld, type Called } from "../support/admin.ts";
import { engines, type Engine } from "../support/databases.ts";
import { newKey } from "../support/new-key.ts";
import { numRuns } from "../support/properties.ts";

// Thousands of requests; how long that takes on a busy machine is not judged.
setDefaultTimeout(120_000);

const token = "Zu9xPq4Lr7Tn2Vb6Kd1Ws8Yf3Hg5Jc0M";
/** Every value that is made up here carries it, so that it is found wherever it does not belong. */
const mark = "qzx7";

/** What has broken statements elsewhere. */
const spells = [
  `'`,
  `''`,
  `"`,
  "`",
  `\\`,
  `' or '1'='1`,
  `'; drop table keys; --`,
  `") or 1=1 --`,
  `' union select value, value, value from settings --`,
  `%`,
  `%%%%____`,
  `_`,
  `$1`,
  `?1`,
  `:name`,
  `{{7*7}}`,
  `\${x}`,
  `/* */`,
  `-- `,
  `;`,
  `E'\\\\'`,
  `\u0000`,
  `\ud800`,
  `\udfff\ud800`,
  `\u202e`,
  `𝒳`,
  `\r\nSet-Cookie: a=b`,
  `null`,
  `NaN`,
  `1e999`,
  `0x7f`,
  `9223372036854775808`,
  `pg_sleep(5)`,
  `1; select pg_sleep(5)`,
  `../../etc/passwd`,
  `<script>`,
  `=cmd|' /C calc'!A0`,
  `x`.repeat(600),
  ` `,
] as const;

const hostileText = fc
  .tuple(fc.constantFrom(...spells), fc.constantFrom(...spells), fc.boolean())
  .map(([one, other, twice]) => `${one}${mark}${twice ? other : ""}`);
const hostileValue = fc.oneof(
  { weight: 4, arbitrary: hostileText },
  { weight: 1, arbitrary: fc.constantFrom(null, true, -1, 0, 1.5, 1e308, -1e308, 2 ** 53, Number.MIN_VALUE, [], {}, [[[[]]]], "") },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
);

type Schema = z.core.JSONSchema.BaseSchema;

/** A value of the shape that a schema asks for, with hostile texts in it: what is of the right shape gets as far as the store. */
function shaped(schema: Schema | boolean | undefined): fc.Arbitrary<unknown> {
  if (schema === undefined || typeof schema === "boolean") return hostileValue;
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  const either = schema.anyOf ?? schema.oneOf;
  if (either !== undefined) return fc.oneof(...either.map((part) => shaped(part)));
  switch (schema.type) {
    case "string":
      return schema.pattern === undefined
        ? fc.oneof(hostileText, fc.constantFrom("app", "main", "2026-01-01", "1h", "day", goodPassword))
        : fc.oneof(
            hostileText,
            fc.stringMatching(new RegExp(schema.pattern)).map((text) => text.slice(0, 64)),
          );
    case "integer":
    case "number":
      return fc.oneof(fc.integer({ min: 0, max: 1000 }), fc.constantFrom(0, -1, 2 ** 53 - 1, 1e15, 0.1));
    case "boolean":
      return fc.boolean();
    case "array":
      return fc.array(shaped(schema.items as Schema), { maxLength: 3 });
    case "object":
      return fc.oneof(
        { weight: 5, arbitrary: members(schema) },
        { weight: 1, arbitrary: fc.dictionary(hostileText, hostileValue, { maxKeys: 3 }) },
      );
    default:
      return hostileValue;
  }
}

/** What is required and one more, or any number more. */
function members({ properties = {}, required = [] }: Schema): fc.Arbitrary<unknown> {
  const parts = Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, shaped(part as Schema)]));
  const optional = Object.keys(parts).filter((name) => !required.includes(name));
  const withOnly = (names: readonly string[]): fc.Arbitrary<unknown> =>
    fc.record(Object.fromEntries([...required, ...names].map((name) => [name, parts[name] ?? hostileValue])));
  return fc.oneof(fc.record(parts, { requiredKeys: [...required] }), ...optional.map((name) => withOnly([name])));
}

const schemaOf = (schema: z.ZodObject): Schema => z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });

interface Attack {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Any request of a route: its names, its parameters, its body, and headers that it looks at. */
function attack(route: AdminRoute, ids: readonly string[]): fc.Arbitrary<Attack> {
  const names = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const query = route.query === null ? fc.constant({}) : queryOf(schemaOf(route.query));
  const body =
    route.body === null ? fc.constant(undefined) : fc.oneof({ weight: 5, arbitrary: shaped(schemaOf(route.body)) }, hostileValue);
  return fc
    .record({
      names: fc.tuple(...names.map(() => fc.oneof(hostileText, fc.constantFrom(...ids)))),
      query,
      body,
      headers: fc.record(
        { "x-request-id": headerText, "x-csrf-token": headerText, cookie: headerText.map((text) => `sluice_session=${text}`) },
        { requiredKeys: [] },
      ),
    })
    .map((made) => {
      let at = 0;
      const path = route.path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(made.names[at++]!.toWellFormed()));
      const parameters = new URLSearchParams(made.query).toString();
      return { path: parameters === "" ? path : `${path}?${parameters}`, headers: made.headers, body: made.body };
    });
}

const headerText = hostileText.map((text) => text.replaceAll(/[^\x20-\x7e]/g, "~").trim());

/** One parameter alone, or any number of them: most that are made up are refused, and would hide the others. */
function queryOf({ properties = {} }: Schema): fc.Arbitrary<Record<string, string>> {
  const parts = Object.entries(properties).map(
    ([name, part]) =>
      [
        name,
        fc.oneof(
          hostileText,
          shaped(part as Schema).map((value) => (typeof value === "string" ? value : JSON.stringify(value))),
        ),
      ] as const,
  );
  const any = fc.record(Object.fromEntries(parts), { requiredKeys: [] }) as fc.Arbitrary<Record<string, string>>;
  return fc.oneof(any, ...parts.map(([name, value]) => value.map((text) => ({ [name]: text }))));
}

/** Looks at every statement on its way: what came from outside is a value of it and never its text. */
function watched(database: Database): { readonly database: Database; readonly texts: Set<string>; readonly troubles: string[] } {
  const texts = new Set<string>();
  const troubles: string[] = [];
  const look = (query: Sql): void => {
    if (!(query instanceof Sql)) troubles.push("something that is no statement");
    const text = query.texts.join("?");
    texts.add(text);
    if (query.texts.length !== query.values.length + 1) troubles.push(`places and values differ: ${text}`);
    if (text.includes(mark)) troubles.push(`a value in the text: ${text}`);
  };
  const noted = async <T>(work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      const expected = error instanceof StorageError && ["conflict", "missing", "invalid"].includes(error.kind);
      if (!expected) troubles.push(String(error));
      throw error;
    });
  const wrap = (inner: Database): Database => ({
    engine: inner.engine,
    all: (query) => {
      look(query);
      return noted(inner.all(query));
    },
    run: (query) => {
      look(query);
      return noted(inner.run(query));
    },
    ...(inner.runEach === undefined
      ? {}
      : {
          runEach: (query: Sql, rows: Parameters<NonNullable<Database["runEach"]>>[1]) => {
            look(query);
            return noted(inner.runEach!(query, rows));
          },
        }),
    transaction: (work) => inner.transaction((transaction) => work(wrap(transaction))),
    close: () => inner.close(),
  });
  return { database: wrap(database), texts, troubles };
}

/** Words by which a database would give itself away, and that no value here has. */
const givenAway = /sqlite|postgres|syntax error|unterminated|near "|no such (table|column):|relation "|insert into|\.ts:\d/i;

/** Guessing is slowed down and each guess is costly on purpose, so these get a few. */
const costly = new Set(["POST /admin/api/login", "POST /admin/api/bootstrap", "POST /admin/api/password", "POST /admin/api/accounts"]);

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`S02: whatever is sent to the admin API over ${engine.name}`, () => {
    let rig: Rig;
    beforeAll(async () => {
      rig = await start(engine);
    });

    test("no value becomes part of a statement, nothing breaks, and no answer speaks of the database", async () => {
      const { world, spy, ids } = rig;
      const known = new Set(spy.texts);
      let sent = 0;
      let deep = 0;
      // A stream of events does not end, and takes no input.
      for (const route of world.listener.routes.filter(({ path }) => path !== "/admin/api/live")) {
        const title = `${route.method} ${route.path}`;
        await fc.assert(
          fc.asyncProperty(attack(route, ids), async ({ path, headers, body }) => {
            const called = await call(world, route, path, headers, body);
            sent += 1;
            if (called.status < 300 || called.status === 404 || called.status === 409) deep += 1;
            expect([title, called.status >= 500, called.text]).toEqual([title, false, called.text]);
            if (called.status >= 400)
              expect([title, givenAway.exec(called.text)?.[0], called.text]).toEqual([title, undefined, called.text]);
            expect(spy.troubles).toEqual([]);
          }),
          { numRuns: numRuns(costly.has(title) ? 2 : 20) },
        );
      }
      expect(world.bugs).toEqual([]);
      // Otherwise the request would be rejected before it reaches the store.
      expect([sent > 700, deep > sent / 5]).toEqual([true, true]);
      // There are as many statements as the program has, however many values there were.
      expect(spy.texts.size).toBeGreaterThan(known.size);
      expect(spy.texts.size).toBeLessThan(300);
    });

    test("error paths look for nothing by what they were given: a stranger's credentials reach no statement as they are", async () => {
      const { world, spy } = rig;
      const before = spy.values.length;
      await fc.assert(
        fc.asyncProperty(
          headerText,
          fc.constantFrom(...world.listener.routes.filter(({ access }) => access !== "public")),
          async (text, route) => {
            for (const headers of [
              { authorization: `Bearer ${text}` },
              { authorization: text },
              { cookie: `sluice_session=${text}` },
              { "x-api-key": text },
            ]) {
              const path = route.path.replaceAll(/\{\w+\}/g, "something");
              const { status } = await world.call(route.method, path, { headers, ...(route.method === "GET" ? {} : { body: {} }) });
              expect([401, 403]).toContain(status);
            }
          },
        ),
        { numRuns: numRuns(30) },
      );
      expect(spy.values.slice(before).filter((value) => value.includes(mark))).toEqual([]);
      expect(spy.troubles).toEqual([]);
      expect(world.bugs).toEqual([]);
    });
  });
}

interface Rig {
  readonly world: AdminWorld;
  readonly spy: { readonly texts: Set<string>; readonly troubles: string[]; readonly values: string[] };
  /** Of things that are there. */
  readonly ids: readonly string[];
}

async function start(engine: Engine): Promise<Rig> {
  const spied = watched(await engine.open());
  const values: string[] = [];
  const database: Database = valued(spied.database, values);
  const channelSecrets = makeChannelSecrets({ version: "1", bytes: crypto.getRandomValues(new Uint8Array(32)) });
  const storage = makeStorage(database, { wallMs: Date.now, newId: () => Bun.randomUUIDv7(), channelSecrets });
  const world = await startAdmin({
    storage: () => storage,
    services: {
      channels: {
        isInFile: () => false,
        check: async () => [],
        seal: (name, secrets) => channelSecrets.encrypt(name, secrets),
        status: () => [],
        test: async () => null,
        forget: () => 0,
        clear: () => 0,
        call: async () => "absent" as const,
      },
    },
    listen: { operatorToken: token },
  });
  return { world, spy: { ...spied, values }, ids: await seeded(storage, world) };
}

function valued(database: Database, values: string[]): Database {
  const look = ({ values: given }: Sql): void => void values.push(...given.map(String));
  return {
    ...database,
    all: (query) => {
      look(query);
      return database.all(query);
    },
    run: (query) => {
      look(query);
      return database.run(query);
    },
  };
}

async function seeded(storage: Storage, { services }: AdminWorld): Promise<readonly string[]> {
  const { token: keyToken, publicId } = services.makeKeyToken();
  await storage.keys.create(
    publicId,
    { ...newKey, name: "app", limits: unlimited },
    { digest: services.digest(keyToken), last4: "0000" },
    tester,
  );
  await storage.channels.create({ name: "main", entry: { base_url: "https://api.example.com/v1" }, sealed: null, last4: [] }, tester);
  await storage.accounts.create({ name: "ada", role: "admin", passwordHash: "$none$" }, tester);
  const price = await storage.prices.set({ provider: null, model: "large", fromMs: 0, rates: { input: 1 }, note: null }, tester);
  return [publicId, "main", "ada", price.id, "app"];
}

async function call(
  world: AdminWorld,
  route: AdminRoute,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: unknown,
): Promise<Called> {
  // The login guard counts attempts by the minute.
  world.pass(61_000);
  const own = route.access === "public" ? headers : { ...headers, authorization: `Bearer ${token}` };
  return world.call(route.method, path, { headers: own, ...(route.method === "GET" ? {} : { body: body ?? {} }) });
}

test("S02: a statement is made by the template and by nothing else, and a value stays a value whatever it is", async () => {
  const { open } = engines[0]!;
  await using database = await open();
  await fc.assert(
    fc.asyncProperty(hostileText, async (text) => {
      const query = sql`select ${text} as one, length(${text}) as two`;
      expect(query.texts.join("")).not.toContain(mark);
      const [row] = await database.all<{ readonly one: string }>(query);
      expect(row?.one).toBe(text.replaceAll("\0", "\uFFFD").toWellFormed());
    }),
    { numRuns: 60 },
  );
  const sources = new Bun.Glob("src/**/*.ts");
  const makers: string[] = [];
  for await (const file of sources.scan({ cwd: `${import.meta.dir}/../..` })) {
    const text = await Bun.file(`${import.meta.dir}/../../${file}`).text();
    if (/new Sql\(/.test(text)) makers.push(file);
    // The drivers' own ways to run a text.
    if (/\.unsafe\(|\.query\(`|\.exec\(`/.test(text) && !/^src\/store\/(sqlite|postgres)\/\1-connection\.ts$/.test(file)) makers.push(file);
  }
  // The thread and the bulk insertion are handed the texts of statements that the template made. The names and bounds of partitions
  // cannot be parameters; they are made of constants and of moments of the clock.
  expect(makers.toSorted()).toEqual([
    "src/store/postgres/receipt-partitions.ts",
    "src/store/receipts/bulk-insert.ts",
    "src/store/sql.ts",
    "src/store/sqlite/database-thread.ts",
  ]);
});
