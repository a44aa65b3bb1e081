import type { z } from "zod";
import type { explainAnswer, previewAnswer } from "../../admin/routes/requests-routes.ts";
import type { configurationAnswer } from "../../admin/routes/configuration-routes.ts";
import type { comparedModelAnswer, invoiceRowAnswer, outcomeAnswer } from "../../admin/routes/usage/outcomes-routes.ts";
import type { historyAnswer } from "../../admin/routes/history-routes.ts";
import type { channelAnswer } from "../../admin/views/channel-view.ts";
import type { listedGroupAnswer, groupAnswer } from "../../admin/routes/groups-routes.ts";
import type { keyBudgetsAnswer } from "../../admin/views/key-budgets.ts";
import type { keyAnswer } from "../../admin/views/key-view.ts";
import type { receiptAnswer, receiptSummaryAnswer } from "../../admin/views/receipt-view.ts";

/** What the admin API answers, by its own schemas. Nothing of them is loaded: they are types here. */
export type ChannelAnswer = z.output<typeof channelAnswer>;
export type ConfigurationAnswer = z.output<typeof configurationAnswer>;
export type HistoryEntry = z.output<typeof historyAnswer>;
/** What would be sent is only known of a request that was pasted. */
export type ExplainedAnswer = z.output<typeof explainAnswer> & Partial<z.output<typeof previewAnswer>>;
export type GroupAnswer = z.output<typeof groupAnswer>;
export type ListedGroup = z.output<typeof listedGroupAnswer>;
export type KeyAnswer = z.output<typeof keyAnswer>;
export type KeyBudgetsAnswer = z.output<typeof keyBudgetsAnswer>;
export type OutcomeFigures = z.output<typeof outcomeAnswer>;
export type ComparedModel = z.output<typeof comparedModelAnswer>;
export type InvoiceRow = z.output<typeof invoiceRowAnswer>;
export type RequestSummary = z.output<typeof receiptSummaryAnswer>;
export type RequestAnswer = z.output<typeof receiptAnswer> & { readonly namesakes: readonly string[] };
