import type { Database } from "../database.ts";
import { joinSql, nameSql, sql, Sql, valuesOf, type Value } from "../sql.ts";

export type ColumnTypes = Readonly<Record<string, "text" | "number">>;

/**
 * Inserts rows with statements that do not depend on the number of rows, so that they are prepared once. SQLite runs a statement
 * for one row or for fifty; PostgreSQL gets all rows at once, as one array per column.
 */
export class BulkInsert {
  readonly columns: Sql;
  private readonly one: Sql;
  private readonly row: Sql;
  private readonly insertInto: Sql;
  private readonly listTypes: readonly Sql[];
  private readonly kinds: readonly ("text" | "number")[];
  /** Made when they are needed: of all tables they are 100 KB of text and took 12 ms of each start, also where nothing is stored. */
  private some: Sql | null = null;
  private shared: readonly SharedColumns[] | null = null;

  constructor(
    private readonly target: {
      readonly into: string;
      readonly columns: ColumnTypes;
      readonly conflict: Sql;
      /** The unique column, for callers that must know which rows are new. */
      readonly identity?: string;
      /** The caller guarantees that both engines can store each value, so that they are not checked again. */
      readonly storable?: true;
      /**
       * Columns that often have the same value in consecutive rows: one statement then binds that value once for all of its rows. Of
       * several such sets, the first whose values are the same is used.
       */
      readonly shared?: readonly (readonly string[])[];
    },
  ) {
    const names = Object.keys(target.columns);
    this.kinds = Object.values(target.columns);
    this.columns = joinSql(names.map(nameSql), comma);
    this.listTypes = this.kinds.map((kind) => (kind === "text" ? sql`text[]` : sql`bigint[]`));
    this.insertInto = sql`insert into ${nameSql(target.into)} (${this.columns})`;
    const placeholders = joinSql(
      names.map(() => sql`${null}`),
      comma,
    );
    this.row = sql`(${placeholders})`;
    this.one = sql`${this.insertInto} values ${this.row} ${target.conflict}`;
  }

  /** Returns the indexes of the rows that changed something. */
  async add(database: Database, rows: readonly (readonly Value[])[]): Promise<readonly number[]> {
    if (rows.length === 0) return [];
    return database.engine === "sqlite" ? this.addEach(database, rows) : this.addLists(database, rows);
  }

  /** Like `add`, but returns only the number of such rows, which is faster. */
  async addAll(database: Database, rows: readonly (readonly Value[])[]): Promise<number> {
    if (rows.length === 0) return 0;
    if (database.runEach === undefined) return (await this.add(database, rows)).length;
    const values = this.storable(rows);
    const end = rows.length - (rows.length % rowsAtOnce);
    let changed = 0;
    // Rows keep their order, so that a table with the same order grows at its end.
    for (const { statement, lists } of this.batches(values, end)) changed += sumOf(await database.runEach(statement, lists));
    return end === rows.length ? changed : changed + sumOf(await database.runEach(this.one, values.slice(end)));
  }

  /** The statements to run, in order, each with its lists of values. */
  private batches(rows: readonly (readonly Value[])[], end: number): readonly StatementBatch[] {
    const all: StatementBatch[] = [];
    if (end === 0) return all;
    const candidates = (this.shared ??= this.sharedColumns());
    for (let at = 0; at < end; at += rowsAtOnce) {
      const shared = candidates.find((columns) => columns.areEqual(rows, at));
      const statement = shared === undefined ? (this.some ??= this.forSome()) : shared.statement;
      const before = all.at(-1);
      const current: StatementBatch = before?.statement === statement ? before : { statement, lists: [] };
      if (current !== before) all.push(current);
      current.lists.push(shared === undefined ? joined(rows, at) : shared.list(rows, at));
    }
    return all;
  }

  private forSome(): Sql {
    const rows = Array.from({ length: rowsAtOnce }, () => this.row);
    return sql`${this.insertInto} values ${joinSql(rows, comma)} ${this.target.conflict}`;
  }

  private sharedColumns(): readonly SharedColumns[] {
    const { columns, conflict, shared = [] } = this.target;
    return shared.map((names) => new SharedColumns(Object.keys(columns), names, this.insertInto, conflict));
  }

  private storable(rows: readonly (readonly Value[])[]): readonly (readonly Value[])[] {
    return this.target.storable === true ? rows : rows.map((row) => valuesOf({ values: row }));
  }

  private async addEach(database: Database, rows: readonly (readonly Value[])[]): Promise<readonly number[]> {
    const changed = (await database.runEach?.(this.one, this.storable(rows))) ?? (await this.addOneByOne(database, rows));
    const indexes: number[] = [];
    for (let at = 0; at < changed.length; at += 1) if (changed[at]! > 0) indexes.push(at);
    return indexes;
  }

  private async addOneByOne(database: Database, rows: readonly (readonly Value[])[]): Promise<readonly number[]> {
    const changed: number[] = [];
    for (const row of rows) changed.push(await database.run(new Sql(this.one.texts, row)));
    return changed;
  }

  private async addLists(database: Database, rows: readonly (readonly Value[])[]): Promise<readonly number[]> {
    const { conflict, columns, identity } = this.target;
    // As text, because the driver does not support arrays.
    const lists = this.kinds.map((kind, at) => sql`cast(cast(${listOf(rows, at, kind)} as text) as ${this.listTypes[at]!})`);
    const statement = sql`${this.insertInto} select * from unnest(${joinSql(lists, comma)}) ${conflict}`;
    if (identity === undefined) {
      await database.run(statement);
      return [];
    }
    const added = new Set<Value>();
    for (const row of await database.all<Record<string, Value>>(sql`${statement} returning ${nameSql(identity)}`))
      added.add(row[identity]!);
    const identityColumn = Object.keys(columns).indexOf(identity);
    return rows.flatMap((row, at) => (added.delete(row[identityColumn]!) ? [at] : []));
  }
}

interface StatementBatch {
  readonly statement: Sql;
  readonly lists: (readonly Value[])[];
}

const comma = sql`, `;
/** One statement for 50 rows takes two thirds of the time of 50 statements. Larger ones gain nothing. */
const rowsAtOnce = 50;

/** The values of the rows for one statement, row after row. */
function joined(rows: readonly (readonly Value[])[], from: number): readonly Value[] {
  const list: Value[] = [];
  for (let row = from; row < from + rowsAtOnce; row += 1) for (const value of rows[row]!) list.push(value);
  return list;
}

function sumOf(counts: readonly number[]): number {
  let sum = 0;
  for (const count of counts) sum += count;
  return sum;
}

/** An array literal of PostgreSQL. */
function listOf(rows: readonly (readonly Value[])[], at: number, kind: "text" | "number"): string {
  let list = "";
  for (const row of rows) {
    const value = row[at]!;
    const item = value === null ? "null" : kind === "text" ? quoted(String(value)) : String(value);
    list += list === "" ? item : `,${item}`;
  }
  return `{${list}}`;
}

function quoted(text: string): string {
  return `"${/["\\]/.test(text) ? text.replace(/["\\]/g, "\\$&") : text}"`;
}

/** A statement for rows that share the values of some columns and binds those once: binding a text costs more than storing it. */
class SharedColumns {
  readonly statement: Sql;
  private readonly sharedColumns: readonly number[];
  private readonly ownColumns: readonly number[];

  constructor(names: readonly string[], shared: readonly string[], before: Sql, conflict: Sql) {
    const indexes = names.map((_, at) => at);
    this.sharedColumns = indexes.filter((at) => shared.includes(names[at]!));
    this.ownColumns = indexes.filter((at) => !shared.includes(names[at]!));
    let last = this.sharedColumns.length;
    // SQLite uses a value wherever its number appears.
    const rows = Array.from({ length: rowsAtOnce }, () => {
      const placeholders = indexes.map((at) => `?${this.sharedColumns.includes(at) ? this.sharedColumns.indexOf(at) + 1 : ++last}`);
      return `(${placeholders.join(", ")})`;
    });
    this.statement = new Sql([`${before.texts[0]!} values ${rows.join(", ")} ${conflict.texts[0]!}`], []);
  }

  /** Whether the rows of the next statement share these values. */
  areEqual(rows: readonly (readonly Value[])[], from: number): boolean {
    const first = rows[from]!;
    for (let row = from + 1; row < from + rowsAtOnce; row += 1) {
      for (const at of this.sharedColumns) if (rows[row]![at] !== first[at]) return false;
    }
    return true;
  }

  list(rows: readonly (readonly Value[])[], from: number): readonly Value[] {
    const list: Value[] = [];
    for (const at of this.sharedColumns) list.push(rows[from]![at]!);
    for (let row = from; row < from + rowsAtOnce; row += 1) for (const at of this.ownColumns) list.push(rows[row]![at]!);
    return list;
  }
}

/** Rows whose figures are added to those that are there already, and whose sets of bits are joined with them. */
export function summingRows(
  table: string,
  identity: ColumnTypes,
  added: readonly string[],
  merged: readonly string[],
  shared: readonly (readonly string[])[] = [],
): BulkInsert {
  const joined = (operator: Sql) => (column: string) => {
    const figure = nameSql(column);
    return sql`${figure} = ${nameSql(table)}.${figure} ${operator} excluded.${figure}`;
  };
  const adding = [...added.map(joined(sql`+`)), ...merged.map(joined(sql`|`))];
  return new BulkInsert({
    into: table,
    columns: { ...identity, ...Object.fromEntries([...added, ...merged].map((figure) => [figure, "number"] as const)) },
    conflict: sql`on conflict (${joinSql(Object.keys(identity).map(nameSql), sql`, `)}) do update set ${joinSql(adding, sql`, `)}`,
    storable: true,
    shared,
  });
}
