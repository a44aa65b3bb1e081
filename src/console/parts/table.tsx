import type { ComponentChildren } from "preact";

/** One column of a table. */
export interface TableColumn<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** Aligned to the right. */
  readonly isNumber?: boolean;
  /** A long text is cut to the width of the column; its tooltip has all of it. */
  readonly whole?: (row: Row) => string;
}

export function DataTable<Row>({ label, columns, rows, keyOf }: TableProps<Row>) {
  return (
    // A table that is wider than the screen can be scrolled with the keyboard as well.
    <div class="table-box" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber === true ? "number" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ title, cell, isNumber, whole }) => (
                <td key={title} class={isNumber === true ? "number" : whole === undefined ? "" : "shorten"} title={whole?.(row)}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface TableProps<Row> {
  readonly label: string;
  readonly columns: readonly TableColumn<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
}
