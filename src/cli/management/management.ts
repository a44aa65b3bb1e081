import type { AuditQuery, FigureBounds } from "../../gateway/storage.ts";
import type { AuditEntryView } from "../../manage/audit-export.ts";
import type { GroupEdit } from "../../manage/groups.ts";
import type { GroupView } from "../../manage/group-view.ts";
import type { historyEntryView } from "../../manage/history/history-view.ts";
import type { KeyEdit } from "../../manage/keys.ts";
import type { KeyView } from "../../manage/key-view.ts";
import type { Budget, BudgetPeriod, Limits } from "../../limits/limits.ts";
import type { InvoiceView, ModelView, OutcomeView } from "../../manage/receipts/outcome-report.ts";
import type { shownReceipt, shownSummary } from "../../manage/receipts/receipt-view.ts";
import type { OutcomeMark } from "../../usage/call-outcome.ts";
import type { Receipt } from "../../usage/receipt.ts";
import type { UsageColumn } from "../../usage/usage-row.ts";
import type { UsageView } from "../../usage/usage-view.ts";
import type { CallFilters } from "../call-filters.ts";
import type { AccessManagement } from "./access-management.ts";
import type { PriceManagement } from "./price-management.ts";

/**
 * What commands ask for and change, in the words of the admin API: on the store itself, or through the admin API of a gateway
 * elsewhere, which decides what the holder of the token may see. Every method rejects with a `CommandError` or a `StorageError`.
 */
export interface Management extends AccessManagement, PriceManagement {
  /** Waits for the receipts that are on their way into the store, and returns how many bytes are still missing. */
  catchUp(): Promise<number>;

  key(idOrName: string): Promise<KeyView | null>;
  keyPage(query: KeyListQuery): Promise<{ readonly keys: readonly KeyView[]; readonly next: string | null }>;
  /** What a key has spent in the current period of its budget, which may be a default of its groups; in all, if it has none. */
  keySpending(key: KeyView): Promise<KeySpending>;
  createKey(edit: KeyEdit & { readonly name: string }, readImport: (() => Promise<string>) | null): Promise<KeyAndToken>;
  editKey(id: string, edit: KeyEdit): Promise<KeyView>;
  /** Makes of the limits what `change` says. Nothing is lost if somebody else changes them at the same moment. */
  changeKeyLimits(id: string, change: (before: Limits) => Limits): Promise<KeyView>;
  rotateKey(id: string, overlapMs: number): Promise<KeyAndToken>;
  revokeKey(id: string): Promise<KeyView>;

  groups(): Promise<readonly GroupView[]>;
  group(idOrName: string): Promise<GroupView | null>;
  groupBudgets(id: string): Promise<readonly GroupBudgetView[]>;
  createGroup(edit: GroupEdit & { readonly name: string }): Promise<GroupView>;
  editGroup(idOrName: string, edit: GroupEdit): Promise<GroupView>;
  /** The same as `changeKeyLimits`, for a group. */
  changeGroupLimits(id: string, change: (before: Limits) => Limits): Promise<GroupView>;
  removeGroup(id: string): Promise<GroupView>;

  /** The key and the group are given by their ids. */
  usage(query: CallFilters & { readonly by: readonly UsageColumn[] }): Promise<readonly UsageView[]>;
  outcomes(query: CallFilters & { readonly by: readonly UsageColumn[] }): Promise<OutcomesView>;
  comparison(model: string, other: string, span: Pick<CallFilters, "since" | "until" | "group">): Promise<readonly ModelView[]>;
  /** Of a calendar month such as `2027-01`. */
  invoice(month: string): Promise<readonly InvoiceView[]>;
  receiptPage(query: CallListQuery): Promise<{ readonly receipts: readonly CallSummaryView[]; readonly next: string | null }>;
  receipt(id: string): Promise<CallView | null>;

  /** Entries, newest first, in pages. */
  audit(query: AuditListQuery): AsyncGenerator<readonly AuditEntryView[]>;
  change(id: string): Promise<ChangeView | null>;
  undo(id: string, secrets: readonly string[] | null): Promise<void>;
}

export interface OutcomesView {
  /** The first day that is counted; null if there is none. */
  readonly counted_from: string | null;
  readonly rows: readonly OutcomeView[];
}

export interface KeyListQuery {
  readonly search: string | null;
  readonly revoked: boolean;
  readonly after: string | null;
  readonly limit: number;
}

export interface KeyAndToken {
  readonly key: KeyView;
  readonly token: string;
}

export interface KeySpending {
  readonly nanos: number;
  readonly budget: Budget | null;
}

export interface GroupBudgetView {
  readonly name: string | null;
  readonly models: string | null;
  readonly period: BudgetPeriod;
  readonly limit_usd: number;
  readonly spent_usd: number;
}

export interface CallListQuery extends CallFilters {
  readonly state: Receipt["state"] | null;
  readonly mark: OutcomeMark | null;
  readonly figures: FigureBounds;
  readonly before: string | null;
  readonly limit: number;
}

export interface AuditListQuery extends Pick<AuditQuery, "action" | "subject" | "actor"> {
  readonly since: string | null;
  readonly limit: number;
}

export type CallSummaryView = ReturnType<typeof shownSummary>;
export type CallView = ReturnType<typeof shownReceipt>;
export type ChangeView = ReturnType<typeof historyEntryView>;
