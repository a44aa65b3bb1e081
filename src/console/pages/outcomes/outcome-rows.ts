import type { InvoiceRow, OutcomeFigures } from "../../core/answers.ts";
import type { GroupedRow } from "../usage/usage-rows.ts";

/** A row of outcomes, as the admin API answers it. */
export interface OutcomeAnswerRow extends OutcomeFigures, GroupedRow {}

export interface OutcomesAnswer {
  readonly counted_from: string | null;
  readonly rows: readonly OutcomeAnswerRow[];
}

/** Calls that were answered although an attempt failed. */
export function savedCalls({ failed_over, retried, rescued }: OutcomeFigures): number {
  return failed_over + retried + rescued;
}

/** What the extra attempts cost, as far as it is known. */
export function extraCost({ failover_usd, hedge_usd, rescue_usd }: OutcomeFigures): number {
  return failover_usd + hedge_usd + rescue_usd;
}

/** Calls that failed, besides those that are counted by themselves. */
export function plainlyFailed({ failed, interrupted, abandoned, unknown }: OutcomeFigures): number {
  return Math.max(0, failed - interrupted - abandoned - unknown);
}

/** The last months, the present one first, in UTC as on most invoices. */
export function lastMonths(nowMs: number, count: number): readonly string[] {
  const now = new Date(nowMs);
  return Array.from({ length: count }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7),
  );
}

export interface InvoiceChannel {
  readonly channel: string | null;
  /** The known cost; null if nothing is known. */
  readonly cost: number | null;
  readonly unpriced: number;
  readonly uncertain: number;
  readonly models: readonly InvoiceRow[];
}

/** The rows of an invoice by channel, the dearest first. */
export function invoiceChannels(rows: readonly InvoiceRow[]): readonly InvoiceChannel[] {
  return [...Map.groupBy(rows, ({ channel }) => channel)]
    .map(([channel, models]) => ({
      channel,
      cost: models.every(({ cost_usd }) => cost_usd === null) ? null : models.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0),
      unpriced: models.reduce((sum, { unpriced }) => sum + unpriced, 0),
      uncertain: models.reduce((sum, { uncertain }) => sum + uncertain, 0),
      models,
    }))
    .toSorted((one, other) => (other.cost ?? 0) - (one.cost ?? 0));
}

/** The invoice's amount as it was typed; null for what is none. */
export function typedAmount(text: string): number | null {
  const plain = text.trim().replace(/^\$/, "").replaceAll(",", "");
  return /^\d+(\.\d*)?$/.test(plain) ? Number(plain) : null;
}

/** How far an invoice is from our figure: `+$1.20 (+3.4 %)`. */
export function invoiceDifference(invoice: number, own: number): string {
  const by = invoice - own;
  if (Math.abs(by) < 0.005) return "The same, to the cent";
  const sign = by > 0 ? "+" : "−";
  const share = own === 0 ? "" : ` (${sign}${((100 * Math.abs(by)) / own).toFixed(1)}\u202f%)`;
  return `The invoice has ${sign}$${Math.abs(by).toFixed(2)}${share}`;
}
