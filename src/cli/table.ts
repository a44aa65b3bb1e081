import { shown } from "./shown-text.ts";

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => string;
  /** For figures. */
  readonly right?: boolean;
}

/** Rows under their titles, in columns as wide as they need. Cells are escaped. */
export function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => columns.map(({ cell }) => shown(cell(row))))];
  const widths = columns.map((_, at) => cells.reduce((widest, line) => Math.max(widest, Bun.stringWidth(line[at] ?? "")), 0));
  return cells
    .map((line) =>
      line
        .map((cell, at) => padded(cell, widths[at] ?? 0, columns[at]?.right === true))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Names and their values, one pair in each line. */
export function facts(pairs: readonly (readonly [name: string, value: string | null])[]): string {
  const present = pairs.filter((pair): pair is readonly [string, string] => pair[1] !== null);
  const widest = Math.max(0, ...present.map(([name]) => name.length));
  return present.map(([name, value]) => `${name.padEnd(widest)}  ${shown(value)}`.trimEnd()).join("\n");
}

/** Some characters take two columns on a terminal. */
function padded(cell: string, width: number, right: boolean): string {
  const space = " ".repeat(Math.max(0, width - Bun.stringWidth(cell)));
  return right ? space + cell : cell + space;
}
