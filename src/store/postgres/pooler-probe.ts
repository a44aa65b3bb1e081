import { StorageError } from "../../gateway/storage.ts";
import { sql } from "../sql.ts";
import type { PostgresConnection } from "./postgres-connection.ts";
import { PostgresHosts } from "./postgres-hosts.ts";
import { TransientError, unnamedPooler } from "./postgres-errors.ts";

/**
 * Rejects if a pooler stands in front of the server that gives each transaction another connection, and the address does not say so.
 * Settings of the session would reach other clients then, and prepared statements would be mixed up, which can answer with the rows of
 * another query before PostgreSQL refuses one.
 *
 * Without such a pooler, a connection has one process of the server for itself. With one, two connections that ask one after the other
 * get the same process, which was used last; or, where the pooler uses its connections in turn, one connection gets another process the
 * second time. Other clients may hide that for a moment, so that it is tried a few times. What is found is never a mistake.
 *
 * Each step takes at most as long as a statement may.
 */
export async function refuseUnnamedPooler(address: string, statementMs = 2_000): Promise<void> {
  const hosts = new PostgresHosts(address);
  if (hosts.isPooled) return;
  const one = await opened(hosts, statementMs);
  if (one === null) return;
  const other = await opened(hosts, statementMs).catch(() => null);
  try {
    let before = await processOf(one, statementMs);
    for (let round = 0; round < roundsMax; round += 1) {
      const [again, others] = [await processOf(one, statementMs), other === null ? null : await processOf(other, statementMs)];
      if (again !== before || again === others) throw unnamedPooler("two connections have shared one");
      before = again;
    }
  } finally {
    one.discard();
    other?.discard();
  }
}

/** Prepares no statements and sets nothing. Null while the server has no place for it: whoever needs one waits, and says why. */
async function opened(hosts: PostgresHosts, waitMs: number): Promise<PostgresConnection | null> {
  try {
    return await hosts.open(waitMs, waitMs, true);
  } catch (error) {
    if (error instanceof TransientError) return null;
    throw error;
  }
}

async function processOf(connection: PostgresConnection, waitMs: number): Promise<unknown> {
  const { rows } = await connection.send(sql`select pg_backend_pid() as pid`, waitMs);
  const [row] = rows as readonly { readonly pid?: unknown }[];
  if (row?.pid === undefined) throw new StorageError("unavailable", "PostgreSQL did not say which of its processes answers.");
  return row.pid;
}

const roundsMax = 3;
