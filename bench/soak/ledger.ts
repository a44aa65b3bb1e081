import type { Database } from "../../src/store/database.ts";
import { sql } from "../../src/store/sql.ts";
import { makeStorage, newId } from "../../src/store/storage.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import type { Admin } from "./admin.ts";
import type { KeyChurn } from "./key-churn.ts";
import { requestIdOf, type Outcome } from "./traffic.ts";
import type { Served } from "./upstream.ts";

export interface LedgerFigures {
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly nanos: number;
}

export interface LedgerCheck {
  /** Of answers that were served whole: what the upstream says, and what the receipts say. */
  readonly served: Omit<LedgerFigures, "nanos">;
  readonly received: Omit<LedgerFigures, "nanos">;
  /** Of all calls: what the receipts add up to, and what the sums by hour and by day say. */
  readonly receipts: LedgerFigures;
  readonly hours: LedgerFigures;
  readonly days: LedgerFigures;
  /** Budgets whose spending was compared with their receipts. */
  readonly budgets: number;
  readonly problems: readonly string[];
}

export interface Books {
  readonly database: Database;
  readonly admin: Admin;
  readonly outcomes: ReadonlyMap<number, Outcome>;
  readonly served: readonly Served[];
  readonly churn: KeyChurn;
}

/** Compares what clients saw, what the upstream served, the receipts, the sums and the budgets with one another. */
export async function checkLedger({ database, admin, outcomes, served, churn }: Books): Promise<LedgerCheck> {
  const problems: string[] = [];
  const receipts = await allReceipts(database);
  const ofCall = Map.groupBy(receipts, ({ requestId }) => requestId);
  const servedTo = Map.groupBy(served, ({ call }) => call);
  const whole = { calls: 0, promptTokens: 0, completionTokens: 0 };
  const noted = { calls: 0, promptTokens: 0, completionTokens: 0 };
  for (const [call, outcome] of outcomes) {
    const own = ofCall.get(requestIdOf(call)) ?? [];
    const seen = servedTo.get(call) ?? [];
    const problem = callProblem(outcome, own, seen);
    if (problem !== null) problems.push(`call ${call} (${outcome.kind}): ${problem}`);
    const [receipt] = own;
    const answer = seen.find((each) => each.whole);
    if (receipt?.state !== "complete" || seen.length !== 1 || answer === undefined) continue;
    whole.calls += 1;
    whole.promptTokens += answer.promptTokens;
    whole.completionTokens += answer.completionTokens;
    noted.calls += 1;
    noted.promptTokens += receipt.delivered.promptTokens ?? 0;
    noted.completionTokens += receipt.delivered.completionTokens ?? 0;
  }
  for (const id of ofCall.keys())
    if (!outcomes.has(Number(id.slice(requestIdOf(0).length - 1)))) problems.push(`a receipt of an unknown call: ${id}`);
  const summed = await Promise.all([sumsOf(database, "hours"), sumsOf(database, "days")]);
  const budgets = await budgetProblems(admin, churn, receipts, problems);
  return { served: whole, received: noted, receipts: addedUp(receipts), hours: summed[0], days: summed[1], budgets, problems };
}

export function callProblem({ kind, status, refused }: Outcome, receipts: readonly Receipt[], seen: readonly Served[]): string | null {
  if (receipts.length > 1) return `${receipts.length} receipts`;
  const isRefused = refused !== null || kind === "unknownModel" || kind === "brokenBody" || kind === "wrongKey";
  const [receipt] = receipts;
  if (receipt === undefined) {
    if (seen.length > 0) return `no receipt, but ${seen.length} requests to the upstream`;
    // Whoever leaves before the request was read was never let in.
    return isRefused || (status === 0 && kind === "leaveEarly") ? null : "no receipt";
  }
  if (isRefused && receipt.attempts.length > 0) return "refused, but an upstream was asked";
  if (receipt.attempts.length < seen.length)
    return `${seen.length} requests to the upstream, but ${receipt.attempts.length} attempts in the receipt`;
  const [answer] = seen;
  if (receipt.state !== "complete" || seen.length !== 1 || answer?.whole !== true) return null;
  const { promptTokens, completionTokens } = receipt.delivered;
  const isEqual = (promptTokens ?? 0) === answer.promptTokens && (completionTokens ?? 0) === answer.completionTokens;
  return isEqual || isAudio(kind)
    ? null
    : `${promptTokens} and ${completionTokens} tokens in place of ${answer.promptTokens} and ${answer.completionTokens}`;
}

function isAudio(kind: Outcome["kind"]): boolean {
  return kind === "speech" || kind === "upload" || kind === "largeUpload";
}

async function allReceipts(database: Database): Promise<readonly Receipt[]> {
  const storage = makeStorage(database, { wallMs: Date.now, newId });
  const found: Receipt[] = [];
  for (let before: string | null = null; ;) {
    const page: readonly Receipt[] = await storage.receipts.list({ ...anything, before, limit: pageMax });
    found.push(...page.filter(({ requestId }) => requestId.startsWith("soak-")));
    const last = page.at(-1);
    if (last === undefined || page.length < pageMax) return found;
    before = last.id;
  }
}

const anything = { keyId: null, model: null, channel: null, state: null, sinceMs: null, untilMs: null };
const pageMax = 200;

function addedUp(receipts: readonly Receipt[]): LedgerFigures {
  const sum = (of: (receipt: Receipt) => number | null): number => receipts.reduce((all, receipt) => all + (of(receipt) ?? 0), 0);
  return {
    calls: receipts.length,
    promptTokens: sum(({ delivered }) => delivered.promptTokens),
    completionTokens: sum(({ delivered }) => delivered.completionTokens),
    nanos: sum(({ billedNanos }) => billedNanos),
  };
}

async function sumsOf(database: Database, table: "hours" | "days"): Promise<LedgerFigures> {
  const from = table === "hours" ? sql`usage_hours` : sql`usage_days`;
  const [row] = await database.all<Record<keyof LedgerFigures, number>>(
    sql`select cast(coalesce(sum(calls), 0) as bigint) as "calls", cast(coalesce(sum(prompt_tokens), 0) as bigint) as "promptTokens",
      cast(coalesce(sum(completion_tokens), 0) as bigint) as "completionTokens", cast(coalesce(sum(nanos), 0) as bigint) as "nanos" from ${from}`,
  );
  const figure = (name: keyof LedgerFigures): number => row?.[name] ?? 0;
  return {
    calls: figure("calls"),
    promptTokens: figure("promptTokens"),
    completionTokens: figure("completionTokens"),
    nanos: figure("nanos"),
  };
}

/** What each key and the group have spent, as the admin API says it, against their receipts. Returns how many were compared. */
async function budgetProblems(admin: Admin, churn: KeyChurn, receipts: readonly Receipt[], problems: string[]): Promise<number> {
  const nanosOf = (own: (receipt: Receipt) => boolean): number => addedUp(receipts.filter(own)).nanos;
  const byKey = Map.groupBy(receipts, ({ keyId }) => keyId);
  const compare = async (place: string, name: string, expected: number): Promise<void> => {
    const { budgets } = await admin.get<{ budgets: readonly { spent_usd: number }[] }>(`/${place}/standing`);
    const spent = Math.round((budgets[0]?.spent_usd ?? Number.NaN) * 1e9);
    if (spent !== expected) problems.push(`${name} has spent ${spent} billionths of a dollar, but its receipts add up to ${expected}`);
  };
  for (const id of churn.everyone.keys()) await compare(`keys/${id}`, `key ${id}`, addedUp(byKey.get(id) ?? []).nanos);
  await compare(
    `groups/${churn.groupId}`,
    "the group",
    nanosOf(({ keyId }) => churn.everyone.get(keyId) === true),
  );
  return churn.everyone.size + 1;
}
