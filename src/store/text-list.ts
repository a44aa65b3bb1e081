import type { Database } from "./database.ts";
import { joinSql, sql, type Sql } from "./sql.ts";
import { nameCharactersMax, storableText } from "./stored-text.ts";

/**
 * Whether a column has one of these texts. A list has no bound: there may be as many groups below one as are made, and databases take some
 * tens of thousands of parameters (PostgreSQL 65,535), of which a query may need the list three times.
 */
export function isOneOf(column: Sql, texts: readonly string[], engine: Database["engine"]): Sql {
  if (texts.length === 0) return sql`1 = 0`;
  if (texts.length <= parametersMax) return sql`${column} in (${joinSql(texts.map(parameter), sql`, `)})`;
  // As a join, PostgreSQL would compare each row with all of a list that it takes for a short one; as a value, the list is hashed once.
  return engine === "sqlite" ? sql`${column} in (${inOneText(texts, engine)})` : sql`(${column} in (${inOneText(texts, engine)})) is true`;
}

/** A query with a row for each of these texts, at least one. */
export function rowsOf(texts: readonly string[], engine: Database["engine"]): Sql {
  if (texts.length > parametersMax) return inOneText(texts, engine);
  const rows = texts.map((text) => sql`(cast(${text} as text))`);
  return sql`values ${joinSql(rows, sql`, `)}`;
}

/** A longer list is sent as one text. How many are in it is not known when the query is planned, so short lists stay parameters, for which an index is chosen. */
const parametersMax = 5_000;

function parameter(text: string): Sql {
  return sql`${text}`;
}

function inOneText(texts: readonly string[], engine: Database["engine"]): Sql {
  // What PostgreSQL rejects in text, it rejects in JSON as well, where `valuesOf` does not see it.
  const list = JSON.stringify(texts.map((text) => storableText(text, nameCharactersMax)));
  return engine === "sqlite"
    ? sql`select value from json_each(${list})`
    : sql`select jsonb_array_elements_text(cast(cast(${list} as text) as jsonb))`;
}
