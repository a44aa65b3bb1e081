/** A table in the format of RFC 4180: a header line, lines that end in CR LF, and quotes where they are needed. */
export function csvOf(headings: readonly string[], rows: Iterable<Readonly<Record<string, CsvValue>>>): string {
  const lines = [line(headings)];
  for (const row of rows) lines.push(line(headings.map((heading) => row[heading] ?? null)));
  return lines.join("");
}

/** Null is an empty cell. */
export type CsvValue = string | number | boolean | null;

function line(cells: readonly CsvValue[]): string {
  return `${cells.map(csvCell).join(",")}\r\n`;
}

/**
 * Text that a spreadsheet would run as a formula gets a quote in front (CSV injection): clients choose the names of models, and a
 * name must not be executed on the machine of an operator who opens the table.
 */
export function csvCell(value: CsvValue): string {
  if (typeof value !== "string") return value === null ? "" : String(value);
  const text = formula.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Some spreadsheets skip leading spaces, and some accept the full-width forms of these characters. */
const formula = /^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r\n]/;
