// Needs: quiet. It mostly waits for receipts to reach the store.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SelectedBudgetFields } from "../../src/limits/limit-fields.ts";
import { dollarsNumber } from "../../src/usage/dollars.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { dollars, openKeys, type Keys } from "../support/keys.ts";
import { rawRequest } from "../support/raw-request.ts";
import { setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

const adminToken = "0b6f5c2e91d84a37f6020cfe57a1b9d34e88";

/** A tenth of a cent for each token of an answer; half a cent for a call to a model that both answers and speaks. */
const prices = [
  { model: "*", input: 0, output: 1_000 },
  { model: "*either", call: 0.005 },
];
const unitNanos = dollars(0.001);
/** Of each budget. */
const units = 20;

let rig: Rig<"main" | "eu-west" | "rack" | "eu-broken" | "spare">;
let keys: Keys;
let folder: string;
let serial = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const file = join(folder, "token");
  await writeFile(file, adminToken, { mode: 0o600 });
  rig = await setUp(
    {
      main: { models: ["plain", "either", "large-main", "eu-model", "gpu"] },
      "eu-west": { models: ["european"] },
      rack: { models: ["racked", "rack-either", "large-racked", "large-either"], tags: ["gpu"] },
      "eu-broken": { models: ["shared"], tier: 1 },
      spare: { models: ["shared"], tier: 2 },
    },
    { admin: "127.0.0.1:0", prices },
    { env: { ADMIN_TOKEN_FILE: file } },
  );
  rig.upstream["eu-broken"].behaviour = "fault:status@500";
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

interface Asked {
  readonly operation: "chat" | "speech";
  readonly model: string;
}

interface Answered {
  readonly status: number;
  readonly requestId: string;
  readonly error: { readonly code: string; readonly message: string } | null;
}

interface Shown {
  readonly id: string;
  readonly token: string;
  readonly budgets: readonly { readonly name: string; readonly limit_usd: number; readonly spent_usd: number }[];
}

/** One call that costs so many units, if it is charged by them. */
async function call(token: string, { operation, model }: Asked, cost: number): Promise<Answered> {
  const body =
    operation === "chat"
      ? { model, max_tokens: cost, x_tokens: cost, messages: [{ role: "user", content: "hi" }] }
      : { model, input: "a".repeat(cost), voice: "alloy", response_format: "pcm" };
  const response = await rawRequest(`${rig.gateway.url}/v1/${operation === "chat" ? "chat/completions" : "audio/speech"}`, {
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });
  const error = response.status === 200 ? null : (response.json() as { readonly error: Answered["error"] }).error;
  return { status: response.status, requestId: response.header("x-request-id") ?? "", error };
}

async function admin(path: string, body?: Readonly<Record<string, unknown>>): Promise<Shown> {
  const headers = { authorization: `Bearer ${adminToken}`, "content-type": "application/json" };
  const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(`${rig.gateway.adminUrl}/admin/api/${path}`, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Shown;
}

const levels = ["organisation", "team", "project", "key"] as const;
type Level = (typeof levels)[number];

interface Limited {
  /** As a message to a client calls it. */
  readonly title: string;
  readonly standing: string;
  /** Of two keys that the budget is for; of one, twice, if it is the key's own. */
  readonly tokens: readonly [string, string];
  /** A key just outside. */
  readonly outside: string;
}

/** An organisation with a team with a project with two keys, where one level alone has a budget. */
async function limited(at: Level, budget: SelectedBudgetFields): Promise<Limited> {
  const limitsOf = (level: Level): object => (level === at ? { limits: { budgets: [{ ...budget, budget_period: "month" }] } } : {});
  const name = `s${(serial += 1)}`;
  const ids: string[] = [];
  let outsideIn: string | null = null;
  for (const kind of ["organisation", "team", "project"] as const) {
    const parent: string | null = ids.at(-1) ?? null;
    if (kind === at) outsideIn = parent;
    ids.push((await admin("groups", { name: `${name}-${kind}`, kind, parent, ...limitsOf(kind) })).id);
  }
  const project = ids[2]!;
  const one = await admin("keys", { name: `${name}-one`, group: project, ...limitsOf("key") });
  const two = at === "key" ? one : await admin("keys", { name: `${name}-two`, group: project });
  const outside = await admin("keys", { name: `${name}-outside`, group: at === "key" ? project : outsideIn });
  return {
    title: at === "key" ? "this key" : `the ${at} ${name}-${at}`,
    standing: at === "key" ? `keys/${one.id}/standing` : `groups/${ids[levels.indexOf(at)]}/standing`,
    tokens: [one.token, two.token],
    outside: outside.token,
  };
}

async function receiptsOf(answers: readonly Answered[]): Promise<readonly Receipt[]> {
  return Promise.all(answers.map(({ requestId }) => keys.receipt(requestId, 10_000)));
}

function billed(receipts: readonly Receipt[]): number {
  return receipts.reduce((sum, { billedNanos }) => sum + (billedNanos ?? Number.NaN), 0);
}

const chat = (model: string): Asked => ({ operation: "chat", model });
const speech = (model: string): Asked => ({ operation: "speech", model });

const selectors: readonly {
  readonly by: string;
  readonly selector: Pick<SelectedBudgetFields, "models" | "operations" | "channels">;
  readonly selected: Asked;
  /** In units: of calls that spend the budget to the last one. */
  readonly costs: readonly number[];
  /** Together, they are more than the budget. */
  readonly others: readonly Asked[];
}[] = [
  {
    by: "model",
    selector: { models: ["large-*"] },
    selected: chat("large-main"),
    costs: [4, 6, 10],
    others: [chat("plain")],
  },
  {
    by: "operation",
    selector: { operations: ["speech"] },
    selected: speech("either"),
    costs: [5, 5, 5, 5],
    others: [chat("either"), chat("plain")],
  },
  // Models that are called like what is selected are on another channel.
  {
    by: "channel",
    selector: { channels: ["eu-*"] },
    selected: chat("european"),
    costs: [4, 6, 10],
    others: [chat("eu-model"), chat("racked")],
  },
  {
    by: "channel tag",
    selector: { channels: ["gpu"] },
    selected: chat("racked"),
    costs: [4, 6, 10],
    others: [chat("gpu"), chat("european")],
  },
  {
    by: "all of these at once",
    selector: { models: ["large-*"], operations: ["chat"], channels: ["gpu"] },
    selected: chat("large-racked"),
    costs: [4, 6, 10],
    others: [chat("large-main"), chat("racked"), speech("large-either")],
  },
];

const cases = selectors.flatMap((given) => levels.map((level) => ({ ...given, level })));

describe("a budget with a selector", () => {
  test.concurrent.each(cases)(
    "by $by, of one $level, refuses those calls alone once it is spent, says whose it is, and equals their receipts",
    async ({ level, selector, selected, costs, others }) => {
      const { title, standing, tokens, outside } = await limited(level, { name: "some", ...selector, budget_usd: 0.001 * units });
      const [one, two] = tokens;
      const unselected: Answered[] = [];
      for (const other of others) unselected.push(await call(one, other, 2 * units));
      const paid: Answered[] = [];
      for (const [at, cost] of costs.entries()) paid.push(await call(tokens[at % 2]!, selected, cost));
      expect(paid.map(({ status }) => status)).toEqual(paid.map(() => 200));
      for (const token of tokens) {
        const refused = await call(token, selected, 1);
        expect(refused).toMatchObject({ status: 429, error: { code: "insufficient_quota" } });
        expect(refused.error?.message).toStartWith(`The budget of ${title} for some, $0.02 a month, `);
      }
      for (const other of others) unselected.push(await call(two, other, 2 * units));
      expect(unselected.map(({ status }) => status)).toEqual(unselected.map(() => 200));
      expect((await call(outside, selected, 2 * units)).status).toBe(200);

      const [ofSelected, ofOthers] = [await receiptsOf(paid), await receiptsOf(unselected)];
      expect(ofSelected.map(({ billedNanos }) => billedNanos)).toEqual(costs.map((cost) => cost * unitNanos));
      expect(billed(ofOthers)).toBeGreaterThan(units * unitNanos);
      const { budgets } = await admin(standing);
      expect(budgets).toMatchObject([{ name: "some", limit_usd: 0.02, spent_usd: dollarsNumber(billed(ofSelected)) }]);
    },
  );

  test.each(["organisation", "key"] as const)(
    "by channel, of one %s, pays for no call that another channel answered, and once spent refuses what its channels could serve",
    async (level) => {
      const { title, standing, tokens } = await limited(level, { name: "eu", channels: ["eu-*"], budget_usd: 0.001 * units });
      const [one, two] = tokens;
      const spared = [await call(one, chat("shared"), 10), await call(two, chat("shared"), 10), await call(one, chat("shared"), 10)];
      expect(spared.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect((await receiptsOf(spared)).map(({ channel }) => channel)).toEqual(["spare", "spare", "spare"]);
      const paid = [await call(two, chat("european"), 10), await call(one, chat("european"), 10)];
      expect(paid.map(({ status }) => status)).toEqual([200, 200]);
      const refused = await call(one, chat("shared"), 1);
      expect(refused).toMatchObject({ status: 429, error: { code: "insufficient_quota" } });
      expect(refused.error?.message).toStartWith(`The budget of ${title} for eu, $0.02 a month, `);
      expect((await call(one, chat("plain"), 2 * units)).status).toBe(200);
      const spentNanos = billed(await receiptsOf(paid));
      expect((await admin(standing)).budgets).toMatchObject([{ name: "eu", spent_usd: dollarsNumber(spentNanos) }]);
      expect(spentNanos).toBe(units * unitNanos);
    },
  );

  test("is looked at on every level: the one without room is named, and nothing is taken of the others", async () => {
    const { id: organisation } = await admin("groups", {
      name: "wide",
      kind: "organisation",
      limits: { budgets: [{ name: "spoken", operations: ["speech"], budget_usd: 0.02 }] },
    });
    const { id: team } = await admin("groups", {
      name: "narrow",
      kind: "team",
      parent: organisation,
      limits: { budgets: [{ name: "gpus", channels: ["gpu"], budget_usd: 0.05 }] },
    });
    const key = await admin("keys", {
      name: "narrowest",
      group: team,
      limits: { budgets: [{ name: "large", models: ["large-*"], budget_usd: 0.014 }] },
    });
    const spent = async (path: string): Promise<readonly number[]> => (await admin(path)).budgets.map(({ spent_usd }) => spent_usd);
    const ask = (asked: Asked, cost: number): Promise<Answered> => call(key.token, asked, cost);

    const all = [await ask(speech("large-either"), 5), await ask(speech("large-either"), 5)];
    const first = await ask(speech("large-either"), 5);
    expect(first.error?.message).toStartWith("The budget of this key for large, $0.014 in all, ");
    const spoken = [await ask(speech("rack-either"), 5), await ask(speech("rack-either"), 5)];
    const second = await ask(speech("rack-either"), 5);
    expect(second.error?.message).toStartWith("The budget of the organisation wide for spoken, $0.02 in all, ");
    const tagged = await ask(chat("racked"), 30);
    const third = await ask(chat("racked"), 1);
    expect(third.error?.message).toStartWith("The budget of the team narrow for gpus, $0.05 in all, ");
    const last = await ask(chat("large-main"), 4);
    const served = [...all, ...spoken, tagged, last];
    expect(served.map(({ status }) => status)).toEqual(served.map(() => 200));
    expect([first, second, third].map(({ status }) => status)).toEqual([429, 429, 429]);
    await receiptsOf(served);
    expect(await spent(`groups/${organisation}/standing`)).toEqual([0.02]);
    expect(await spent(`groups/${team}/standing`)).toEqual([0.05]);
    expect(await spent(`keys/${key.id}/standing`)).toEqual([0.014]);
  });
});
