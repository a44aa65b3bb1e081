import { outcomeViewFigures, type InvoiceView, type ModelView, type OutcomeView } from "../../manage/receipts/outcome-report.ts";
import type { UsageColumn } from "../../usage/usage-row.ts";
import { dollars, shown } from "../shown-text.ts";
import { table, type Column } from "../table.ts";

type Cells = Readonly<Record<string, string | number | null>>;

/** One row for each figure, because there are many: a column for each row of the answer. Figures that are zero everywhere are left out. */
export function columnsText(rows: readonly Cells[], titleOf: string): string {
  const figures = Object.keys(rows[0] ?? {}).filter((name) => name !== titleOf && rows.some((row) => row[name] !== 0));
  return table<string>(
    [
      { title: "", cell: (figure) => figure.replaceAll("_", " ").replace(/ usd$/, " USD") },
      ...rows.map((row): Column<string> => ({
        title: shown(String(row[titleOf] ?? "-")),
        right: true,
        cell: (figure) => cellOf(figure, row[figure] ?? null),
      })),
    ],
    figures,
  );
}

/** A list of figures for everything, and a table with rows for groups. */
export function outcomesText(by: readonly UsageColumn[], rows: readonly OutcomeView[]): string {
  if (by.length === 0)
    return columnsText(
      rows.map((row) => ({ total: "total", ...row })),
      "total",
    );
  const figures = outcomeViewFigures.filter((figure) => figure === "calls" || rows.some((row) => row[figure] !== 0));
  return table<OutcomeView>(
    [
      ...by.map((column): Column<OutcomeView> => ({
        title: column.toUpperCase(),
        cell: (row) => shown(String(row[`${column}_name`] ?? row[column] ?? "-")),
      })),
      ...figures.map((figure): Column<OutcomeView> => ({
        title: titleOf(figure),
        right: true,
        cell: (row) => cellOf(figure, row[figure] ?? null),
      })),
    ],
    rows,
  );
}

export const invoiceHeadings = [
  ...["channel", "model", "attempts", "answered", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"],
  ...["audio_seconds", "characters", "cost_usd", "unpriced", "uncertain", "estimated"],
] as const;

export function invoiceTable(rows: readonly InvoiceView[]): string {
  const all: readonly Cells[] = rows;
  const figures = invoiceHeadings.slice(2).filter((figure) => figure === "cost_usd" || all.some((row) => row[figure] !== 0));
  return table<Cells>(
    [
      { title: "CHANNEL", cell: (row) => shown(String(row["channel"] ?? "unknown")) },
      { title: "MODEL", cell: (row) => shown(String(row["model"] ?? "unknown")) },
      ...figures.map((figure): Column<Cells> => ({
        title: titleOf(figure),
        right: true,
        cell: (row) => cellOf(figure, row[figure] ?? null),
      })),
    ],
    all,
  );
}

/** The times of a model beside its other figures. */
export function flatModel({ first_content: first, took, ...model }: ModelView): Cells {
  return {
    ...model,
    first_content_p50_ms: first?.p50_ms ?? null,
    first_content_p95_ms: first?.p95_ms ?? null,
    took_p50_ms: took?.p50_ms ?? null,
    took_p95_ms: took?.p95_ms ?? null,
  };
}

function titleOf(figure: string): string {
  return figure.replaceAll("_", " ").toUpperCase();
}

function cellOf(figure: string, value: string | number | null): string {
  if (typeof value !== "number") return value === null ? "unknown" : shown(value);
  return figure.endsWith("_usd") ? dollars(value) : String(Math.round(value * 10) / 10);
}
