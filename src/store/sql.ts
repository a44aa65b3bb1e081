import { StorageError } from "../gateway/storage.ts";

/**
 * A statement and its parameters, made only by the `sql` tag, so that no value becomes part of the text. The text uses the
 * subset that SQLite and PostgreSQL share: TEXT, BIGINT and INTEGER; times in milliseconds, JSON as text, money as integers.
 */
export class Sql {
  constructor(
    readonly texts: readonly string[],
    readonly values: readonly Value[],
  ) {}
}

export type Value = string | number | bigint | null;

/** `sql`select * from keys where id = ${id}``. A value that is itself an `Sql` is inserted as a part of the statement. */
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

/** Joins parts of a statement with a separator, such as conditions with `and`. */
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

/** A table or column name as a part of a statement. Only names from our own code are allowed. */
export function nameSql(name: string): Sql {
  if (!/^[a-z_][a-z0-9_]*$/.test(name)) throw new StorageError("invalid", `"${name}" is not a table or column name.`);
  return new Sql([name], []);
}

/** The statement's text with `?1` or `$1` as placeholders. */
export function textOf({ texts }: Sql, mark: "?" | "$"): string {
  // A template literal always has the same strings array, so that its text can be cached by that array.
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
 * The parameters in a form that both engines can store. PostgreSQL rejects NUL in text, so that NUL is replaced for both: one
 * name that a client made up must not make a whole batch of rows fail.
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
  throw new StorageError("damaged", "Only integers up to 2^53 - 1 can be stored.");
}

/** The most rows in one statement. */
const batchRowsMax = 256;

/**
 * Splits rows or values into lists whose lengths are powers of two, because each length is another statement text to prepare and
 * cache. The last list is padded by repeating its first row, so that only statements that tolerate duplicate rows can use it.
 */
export function* batches<T>(items: readonly T[], row: (item: T) => Sql): Generator<Sql> {
  for (let at = 0; at < items.length; at += batchRowsMax) {
    const rows = items.slice(at, at + batchRowsMax).map(row);
    const size = 2 ** Math.ceil(Math.log2(rows.length));
    yield joinSql([...rows, ...Array.from({ length: size - rows.length }, () => rows[0]!)], sql`, `);
  }
}
