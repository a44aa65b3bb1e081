import { StorageTrouble } from "../gateway/storage.ts";

/**
 * A statement and its values, which never become part of its text: `sql` is the only way to make one. The text is what SQLite
 * and PostgreSQL both understand: only TEXT, BIGINT and INTEGER, times as milliseconds, JSON as text, money as integers.
 */
export class Sql {
  constructor(
    readonly texts: readonly string[],
    readonly values: readonly Value[],
  ) {}
}

export type Value = string | number | bigint | null;

/** `sql`select * from keys where id = ${id}``. A value that is itself an `Sql` is put in as a part of the statement. */
export function sql(texts: TemplateStringsArray, ...values: readonly (Value | Sql)[]): Sql {
  if (!values.some(isPart)) return new Sql(texts, values as readonly Value[]);
  const parts: string[] = [texts[0]!];
  const plain: Value[] = [];
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at]!;
    if (isPart(value)) append(parts, plain, value);
    else {
      plain.push(value);
      parts.push("");
    }
    parts[parts.length - 1] += texts[at + 1]!;
  }
  return new Sql(parts, plain);
}

/** Parts of a statement with something between them, such as a list of conditions. */
export function joinSql(parts: readonly Sql[], between: Sql): Sql {
  const texts: string[] = [""];
  const values: Value[] = [];
  for (let at = 0; at < parts.length; at += 1) {
    if (at > 0) append(texts, values, between);
    append(texts, values, parts[at]!);
  }
  return new Sql(texts, values);
}

function append(texts: string[], values: Value[], part: Sql): void {
  texts[texts.length - 1] += part.texts[0]!;
  for (let at = 0; at < part.values.length; at += 1) {
    values.push(part.values[at]!);
    texts.push(part.texts[at + 1]!);
  }
}

function isPart(value: Value | Sql): value is Sql {
  return value instanceof Sql;
}

/** The name of a table or a column of ours. */
export function nameSql(name: string): Sql {
  if (!/^[a-z_]+$/.test(name)) throw new StorageTrouble("invalid", `${name} is no name of a table or a column.`);
  return new Sql([name], []);
}

/** With `?1` or `$1` in the places of the values. */
export function textOf({ texts }: Sql, mark: "?" | "$"): string {
  // A template without parts is the same list whenever it is used.
  const isTemplate = "raw" in texts;
  const known = isTemplate ? templates[mark].get(texts) : undefined;
  if (known !== undefined) return known;
  let text = texts[0]!;
  for (let at = 1; at < texts.length; at += 1) text += `${mark}${at}${texts[at]!}`;
  if (isTemplate) templates[mark].set(texts, text);
  return text;
}

const templates = { "?": new WeakMap<readonly string[], string>(), $: new WeakMap<readonly string[], string>() };

/**
 * The values as every engine can keep them. PostgreSQL has no NUL in its texts, so that no engine gets one: what a client
 * made up must not be what a whole batch of rows fails on.
 */
export function valuesOf({ values }: Pick<Sql, "values">): readonly Value[] {
  for (const value of values) if (!isPlain(value)) return values.map(storable);
  return values;
}

function isPlain(value: Value): boolean {
  if (typeof value === "string") return !value.includes("\0");
  return typeof value !== "number" || Number.isSafeInteger(value);
}

function storable(value: Value): Value {
  if (isPlain(value)) return value;
  if (typeof value === "string") return value.replaceAll("\0", "\uFFFD");
  throw new StorageTrouble("damaged", "A number that is not whole, or too large to be exact, cannot be stored.");
}

/** Rows in one statement. */
const batchRowsMax = 256;

/**
 * Rows or values for a list in a statement, in handfuls of a few fixed sizes: every length would be a statement of its own,
 * and the engines keep those they have seen. The last handful is filled up with what it already has, so only a statement that
 * does not mind a row that comes twice can use it.
 */
export function* batches<T>(items: readonly T[], row: (item: T) => Sql): Generator<Sql> {
  for (let at = 0; at < items.length; at += batchRowsMax) {
    const rows = items.slice(at, at + batchRowsMax).map(row);
    const size = 2 ** Math.ceil(Math.log2(rows.length));
    yield joinSql([...rows, ...Array.from({ length: size - rows.length }, () => rows[0]!)], sql`, `);
  }
}
