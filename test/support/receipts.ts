import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect } from "bun:test";
import type { Storage } from "../../src/gateway/storage.ts";
import type { Database } from "../../src/store/database.ts";
import { openDatabase } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import { makeStorage, newId } from "../../src/store/storage.ts";
import type { AttemptReceipt, Figures, Receipt } from "../../src/usage/receipt.ts";
import { eventually } from "./eventually.ts";

/**
 * Resolves when a call's receipt is in the gateway's SQLite, if that is its store. The drain is started by the first receipt, and what it
 * opens is kept: it must not look like a leak.
 */
export async function drainStarted(directory: string, requestId: string | null): Promise<void> {
  if (!existsSync(join(directory, "data", "sluice.db"))) return;
  await using store = await Receipts.open(directory);
  await store.of(requestId, 30_000);
}

/** What a gateway wrote down, read from its own store while it runs or after its death. */
export class Receipts implements AsyncDisposable {
  private constructor(
    readonly database: Database,
    readonly storage: Storage,
  ) {}

  /** `directory` is the gateway's, unless its data lies elsewhere. */
  static async open(directory: string, dataDir = join(directory, "data")): Promise<Receipts> {
    const database = await openDatabase({ store: "sqlite", dataDir });
    return new Receipts(database, makeStorage(database, { wallMs: Date.now, newId }));
  }

  /** The only receipt of a call, as soon as it is there. */
  async of(requestId: string | null, withinMs = 5_000): Promise<Receipt> {
    const all = await this.ofCalls([requestId ?? ""], withinMs);
    return all[0]!;
  }

  /** One receipt for each of these calls, in their order. */
  async ofCalls(requestIds: readonly string[], withinMs = 5_000): Promise<readonly Receipt[]> {
    const missing = [...requestIds];
    const areThere = async (): Promise<boolean> => {
      while (missing.length > 0 && (await this.storage.receipts.find(missing.at(-1)!)) !== null) missing.pop();
      return missing.length === 0;
    };
    await eventually("the receipts", areThere, withinMs).catch(() => {});
    const found = Map.groupBy(await this.all(), ({ requestId }) => requestId);
    return requestIds.map((id) => {
      const own = found.get(id) ?? [];
      if (own.length !== 1) throw new Error(`call ${id} has ${own.length} receipts`);
      return own[0]!;
    });
  }

  /** Newest first; of calls that began since then. */
  async all(sinceMs: number | null = null): Promise<readonly Receipt[]> {
    const pages: Receipt[] = [];
    for (let before: string | null = null; ;) {
      const page: readonly Receipt[] = await this.storage.receipts.list({ ...anything, sinceMs, before, limit: pageMax });
      pages.push(...page);
      if (page.length < pageMax) return pages;
      before = page.at(-1)!.id;
    }
  }

  /** The sums that were kept with the receipts are those of the receipts. */
  async expectSumsToMatch(): Promise<void> {
    const columns = sql`count(*) as calls, coalesce(sum(prompt_tokens), 0) as prompt, coalesce(sum(completion_tokens), 0) as completion,
      coalesce(sum(audio_ms), 0) as audio, coalesce(sum(characters), 0) as characters, coalesce(sum(billed_nanos), 0) as nanos,
      sum(case when state = 'complete' then 0 else 1 end) as failed, sum(case when billed_nanos is null then 1 else 0 end) as unpriced,
      sum(cost_uncertain) as uncertain, sum(estimated) as estimated`;
    const summed = sql`sum(calls) as calls, sum(prompt_tokens) as prompt, sum(completion_tokens) as completion, sum(audio_ms) as audio,
      sum(characters) as characters, sum(nanos) as nanos, sum(failed) as failed, sum(unpriced) as unpriced, sum(uncertain) as uncertain,
      sum(estimated) as estimated`;
    await this.database.transaction(async (inside) => {
      const [rows] = await inside.all(sql`select ${columns} from receipts`);
      const [days] = await inside.all(sql`select ${summed} from usage_days`);
      const [hours] = await inside.all(sql`select ${summed} from usage_hours`);
      expect(days).toEqual(rows);
      expect(hours).toEqual(rows);
    });
  }

  async integrity(): Promise<string> {
    const rows = await this.database.all<{ readonly integrity_check: string }>(sql`pragma integrity_check`);
    return rows.map(({ integrity_check: said }) => said).join("; ");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.database.close();
  }
}

const anything = { keyId: null, model: null, channel: null, state: null, untilMs: null };
/** As many as the store gives at once. */
const pageMax = 200;

/** A claim about some of an attempt, in few words. */
export function attempt(channel: string, outcome: AttemptReceipt["outcome"], facts: Partial<AttemptReceipt> = {}): Partial<AttemptReceipt> {
  return { channel, outcome, hedge: false, ...facts };
}

/** The figures of tokens alone. */
export function tokens(prompt: number | null, completion: number | null): Partial<Figures> {
  return { promptTokens: prompt, completionTokens: completion };
}

/** Three dollars a million tokens of prompts, fifteen a million of answers: what one token costs. */
export const price = { input: 3, output: 15 };
export const inputNanos = 3_000;
export const outputNanos = 15_000;

export function nanosOf(prompt: number, completion: number): number {
  return prompt * inputNanos + completion * outputNanos;
}
