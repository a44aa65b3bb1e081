import type { Database } from "../database.ts";
import { joinSql, nameSql, sql, Sql, valuesOf, type Value } from "../sql.ts";

export type ColumnTypes = Readonly<Record<string, "text" | "number">>;

/**
 * Puts rows into a table. However many they are, the statements are the same, so that they are made ready once: in this process
 * they are run for one row or for some, and a server gets all rows at once, column by column.
 */
export class BulkInsert {
  readonly columns: Sql;
  private readonly one: Sql;
  private readonly some: Sql;
  private readonly alike: SharedColumns | null;
  private readonly beforeLists: Sql;
  private readonly listTypes: readonly Sql[];
  private readonly kinds: readonly ("text" | "number")[];

  constructor(
    private readonly what: {
      readonly into: string;
      readonly columns: ColumnTypes;
      readonly conflict: Sql;
      /** The column that tells rows apart, where it matters which of them were not there before. */
      readonly identity?: string;
      /** Whoever makes the rows sees to it that every engine takes each of their values, so that nobody need look again. */
      readonly storable?: true;
      /** Columns of which rows that come together mostly have the same value: then a statement takes it once for all of its rows. */
      readonly alike?: readonly string[];
    },
  ) {
    const names = Object.keys(what.columns);
    this.kinds = Object.values(what.columns);
    this.columns = joinSql(names.map(nameSql), comma);
    this.listTypes = this.kinds.map((kind) => (kind === "text" ? sql`text[]` : sql`bigint[]`));
    this.beforeLists = sql`insert into ${nameSql(what.into)} (${this.columns})`;
    const places = joinSql(
      names.map(() => sql`${null}`),
      comma,
    );
    const row = sql`(${places})`;
    const rows = Array.from({ length: rowsAtOnce }, () => row);
    this.one = sql`${this.beforeLists} values ${row} ${what.conflict}`;
    this.some = sql`${this.beforeLists} values ${joinSql(rows, comma)} ${what.conflict}`;
    this.alike = what.alike === undefined ? null : new SharedColumns(names, what.alike, this.beforeLists, what.conflict);
  }

  /** Gives the places of those rows that changed something. */
  async add(database: Database, rows: readonly (readonly Value[])[]): Promise<readonly number[]> {
    if (rows.length === 0) return [];
    return database.engine === "sqlite" ? this.addEach(database, rows) : this.addLists(database, rows);
  }

  /** The same, and says only how many of those rows there are, which takes less. */
  async addAll(database: Database, rows: readonly (readonly Value[])[]): Promise<number> {
    if (rows.length === 0) return 0;
    if (database.runEach === undefined) return (await this.add(database, rows)).length;
    const values = this.storable(rows);
    const end = rows.length - (rows.length % rowsAtOnce);
    let changed = 0;
    // In their order, because a table that is kept in the same order grows at its end then.
    for (const { statement, lists } of this.together(values, end)) changed += sumOf(await database.runEach(statement, lists));
    return end === rows.length ? changed : changed + sumOf(await database.runEach(this.one, values.slice(end)));
  }

  /** Which statements to run with which values, one after the other. */
  private together(rows: readonly (readonly Value[])[], end: number): readonly StatementBatch[] {
    const all: StatementBatch[] = [];
    for (let at = 0; at < end; at += rowsAtOnce) {
      const alike = this.alike?.holds(rows, at) === true ? this.alike : null;
      const statement = alike === null ? this.some : alike.statement;
      const before = all.at(-1);
      const now: StatementBatch = before?.statement === statement ? before : { statement, lists: [] };
      if (now !== before) all.push(now);
      now.lists.push(alike === null ? joined(rows, at) : alike.list(rows, at));
    }
    return all;
  }

  private storable(rows: readonly (readonly Value[])[]): readonly (readonly Value[])[] {
    return this.what.storable === true ? rows : rows.map((row) => valuesOf({ values: row }));
  }

  private async addEach(database: Database, rows: readonly (readonly Value[])[]): Promise<readonly number[]> {
    const changed = (await database.runEach?.(this.one, this.storable(rows))) ?? (await this.oneByOne(database, rows));
    const places: number[] = [];
    for (let at = 0; at < changed.length; at += 1) if (changed[at]! > 0) places.push(at);
    return places;
  }

  private async oneByOne(database: Database, rows: readonly (readonly Value[])[]): Promise<readonly number[]> {
    const changed: number[] = [];
    for (const row of rows) changed.push(await database.run(new Sql(this.one.texts, row)));
    return changed;
  }

  private async addLists(database: Database, rows: readonly (readonly Value[])[]): Promise<readonly number[]> {
    const { conflict, columns, identity } = this.what;
    // As texts, because the driver need not know about lists then.
    const lists = this.kinds.map((kind, at) => sql`cast(cast(${listOf(rows, at, kind)} as text) as ${this.listTypes[at]!})`);
    const statement = sql`${this.beforeLists} select * from unnest(${joinSql(lists, comma)}) ${conflict}`;
    if (identity === undefined) {
      await database.run(statement);
      return [];
    }
    const added = new Set<Value>();
    for (const row of await database.all<Record<string, Value>>(sql`${statement} returning ${nameSql(identity)}`))
      added.add(row[identity]!);
    const place = Object.keys(columns).indexOf(identity);
    return rows.flatMap((row, at) => (added.delete(row[place]!) ? [at] : []));
  }
}

interface StatementBatch {
  readonly statement: Sql;
  readonly lists: (readonly Value[])[];
}

const comma = sql`, `;
/** A statement of this many rows takes two thirds of the time of as many statements; more of them gain nothing. */
const rowsAtOnce = 50;

/** The values of as many rows as one statement takes, one row after the other. */
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

/** A list as PostgreSQL writes it. */
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

/** A statement for as many rows that have the same values in some columns, which it takes once: to hand over a text costs more than to keep it. */
class SharedColumns {
  readonly statement: Sql;
  private readonly common: readonly number[];
  private readonly own: readonly number[];

  constructor(names: readonly string[], alike: readonly string[], before: Sql, conflict: Sql) {
    const places = names.map((_, at) => at);
    this.common = places.filter((at) => alike.includes(names[at]!));
    this.own = places.filter((at) => !alike.includes(names[at]!));
    let last = this.common.length;
    // SQLite takes a value in as many places as name its number.
    const rows = Array.from({ length: rowsAtOnce }, () => {
      const marks = places.map((at) => `?${this.common.includes(at) ? this.common.indexOf(at) + 1 : ++last}`);
      return `(${marks.join(", ")})`;
    });
    this.statement = new Sql([`${before.texts[0]!} values ${rows.join(", ")} ${conflict.texts[0]!}`], []);
  }

  /** Whether the rows from here on are such. */
  holds(rows: readonly (readonly Value[])[], from: number): boolean {
    const first = rows[from]!;
    for (let row = from + 1; row < from + rowsAtOnce; row += 1) {
      for (const at of this.common) if (rows[row]![at] !== first[at]) return false;
    }
    return true;
  }

  list(rows: readonly (readonly Value[])[], from: number): readonly Value[] {
    const list: Value[] = [];
    for (const at of this.common) list.push(rows[from]![at]!);
    for (let row = from; row < from + rowsAtOnce; row += 1) for (const at of this.own) list.push(rows[row]![at]!);
    return list;
  }
}
