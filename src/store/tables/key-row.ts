import type { StoredKey, StoredToken } from "../../keys/stored-key.ts";
import type { Database } from "../database.ts";
import { joinSql, sql, type Sql } from "../sql.ts";
import { parsedJson } from "../stored-json.ts";
import { limitsFrom } from "./stored-limits.ts";
import { scopesFrom, splitsFrom } from "./stored-scopes.ts";

/** A key joined with one of its tokens: one row per token, or a single row if it has none. */
export interface KeyRow {
  readonly id: string;
  readonly name: string;
  readonly owner: string | null;
  readonly note: string | null;
  readonly scopes: string;
  readonly limits: string;
  readonly splits: string;
  readonly expires_ms: number | null;
  readonly created_ms: number;
  readonly revoked_ms: number | null;
  readonly last_used_ms: number | null;
  readonly group_id: string | null;
  readonly digest: string | null;
  readonly token_last4: string | null;
  readonly token_created_ms: number | null;
  readonly token_expires_ms: number | null;
}

export interface KeySelection {
  readonly where: readonly Sql[];
  readonly order: "id" | "revision";
  readonly keysMax: number;
}

/** The selected keys, each with its tokens, newest token first. A single statement, so that all rows are of the same moment. */
export async function readKeys(
  database: Database,
  { where, order, keysMax }: KeySelection,
): Promise<readonly (readonly [KeyRow, ...KeyRow[]])[]> {
  const first = order === "id" ? sql`k.id` : sql`k.revision, k.id`;
  const within = order === "id" ? sql`keys.id` : sql`keys.revision, keys.id`;
  const rows = await database.all<KeyRow>(sql`
    select k.id, k.name, k.owner, k.note, k.scopes, k.limits, k.splits, k.expires_ms, k.created_ms, k.revoked_ms, k.last_used_ms, k.group_id,
      t.digest, t.last4 as token_last4, t.created_ms as token_created_ms, t.expires_ms as token_expires_ms
    from (select * from keys where ${joinSql([sql`1 = 1`, ...where], sql` and `)} order by ${within} limit ${keysMax}) k
    left join key_tokens t on t.key_id = k.id
    order by ${first}, case when t.expires_ms is null then 0 else 1 end, t.created_ms desc, t.expires_ms desc`);
  const keys = new Map<string, [KeyRow, ...KeyRow[]]>();
  for (const row of rows) {
    const known = keys.get(row.id);
    if (known === undefined) keys.set(row.id, [row]);
    else known.push(row);
  }
  return [...keys.values()];
}

/** The key, or the name of the column that this version cannot read. */
export function keyFrom(rows: readonly [KeyRow, ...KeyRow[]]): StoredKey | { readonly damaged: string } {
  const [row] = rows;
  const scopes = scopesFrom(parsedJson(row.scopes));
  if (scopes === null) return { damaged: "scopes" };
  const limits = limitsFrom(parsedJson(row.limits));
  if (limits === null) return { damaged: "limits" };
  const splits = splitsFrom(parsedJson(row.splits));
  if (splits === null) return { damaged: "splits" };
  return {
    id: row.id,
    name: row.name,
    ...scopes,
    expiresMs: row.expires_ms,
    splits,
    limits,
    group: row.group_id,
    owner: row.owner,
    note: row.note,
    createdMs: row.created_ms,
    revokedMs: row.revoked_ms,
    lastUsedMs: row.last_used_ms,
    tokens: rows.flatMap(tokenFrom),
  };
}

function tokenFrom({ token_last4, token_created_ms, token_expires_ms }: KeyRow): readonly StoredToken[] {
  if (token_last4 === null || token_created_ms === null) return [];
  return [{ last4: token_last4, createdMs: token_created_ms, expiresMs: token_expires_ms }];
}
