/** A table as RFC 4180 wants it: a line of headings, lines that end in CR LF, and quotes where they are needed. */
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
 * Text that a spreadsheet would take for a formula gets a quote in front, which makes it text again: whoever chooses the name of
 * a model must not have it computed on the machine of whoever reads the table. Numbers stay numbers.
 */
export function csvCell(value: CsvValue): string {
  if (typeof value !== "string") return value === null ? "" : String(value);
  const text = formula.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Also behind spaces, which some spreadsheets take away first, and in the wide forms that some take for the narrow ones. */
const formula = /^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r\n]/;
