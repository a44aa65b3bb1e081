import { SQL, type ReservedSQL } from "bun";
import { StorageTrouble } from "../../gateway/storage.ts";
import { postgresError } from "./postgres-errors.ts";
import { textOf, valuesOf, type Sql, type Value } from "../sql.ts";

/** What a statement gave: its rows with numbers as numbers, and how many rows it changed. */
export interface QueryResult {
  readonly rows: object[];
  readonly changed: number;
}

/**
 * One connection, used by one statement after the other. Once it was lost, late or closed it is `closed`, and never comes
 * back under the same name: a new one in its place would not know of the transaction that was going on.
 */
export class PostgresConnection {
  closed = false;
  private readonly texts = new Set<string>();

  constructor(
    private readonly client: SQL,
    private readonly reserved: ReservedSQL,
  ) {}

  /** `statementMs` is also told to the server, so that it does not go on with what nobody waits for. */
  static async open(url: string, statementMs: number, waitMs: number): Promise<PostgresConnection> {
    const state: { connection?: PostgresConnection } = {};
    const client = clientFor(url, () => {
      if (state.connection !== undefined) state.connection.closed = true;
    });
    try {
      return await withTimeout(configured(client, statementMs, state), waitMs);
    } catch (error) {
      dispose(client);
      throw postgresError(error);
    }
  }

  async send(query: Sql, waitMs: number): Promise<QueryResult> {
    if (this.closed) throw new StorageTrouble("unavailable", "The connection to PostgreSQL was lost.");
    const text = textOf(query, "$");
    this.texts.add(text);
    try {
      return toQueryResult(await withTimeout(this.reserved.unsafe(text, valuesOf(query).map(bound)), waitMs));
    } catch (error) {
      // Its answer may still come, and would be taken for the one of the next statement.
      if (error instanceof StatementTimeout) this.discard();
      throw postgresError(error);
    }
  }

  /** The driver and the server keep every statement ready that they have seen. Few programs have so many. */
  get hasTooManyStatements(): boolean {
    return this.texts.size > textsMax;
  }

  discard(): void {
    this.closed = true;
    dispose(this.client);
  }
}

/** Did not answer in time. */
export class StatementTimeout extends StorageTrouble {
  constructor(waitMs: number) {
    super("unavailable", `PostgreSQL did not answer within ${Math.round(waitMs)} ms.`);
  }
}

function clientFor(url: string, onclose: () => void): SQL {
  try {
    // The pool is ours, because the driver's has no way to throw away a connection that hangs.
    return new SQL({ url, adapter: "postgres", max: 1, bigint: true, idleTimeout: 0, maxLifetime: 0, connectionTimeout: 0, onclose });
  } catch {
    // The driver's message might repeat the password.
    throw new StorageTrouble(
      "unavailable",
      "The store's address is not one of PostgreSQL: write postgres://user:password@host:5432/database.",
    );
  }
}

async function configured(client: SQL, statementMs: number, state: { connection?: PostgresConnection }): Promise<PostgresConnection> {
  const reserved = await client.reserve();
  const connection = new PostgresConnection(client, reserved);
  state.connection = connection;
  await reserved.unsafe(
    "select set_config('application_name', 'sluice', false), set_config('statement_timeout', $1, false), " +
      "set_config('idle_in_transaction_session_timeout', $2, false)",
    [String(Math.ceil(statementMs * serverShare)), String(Math.max(statementMs, idleMs))],
  );
  return connection;
}

/** Nobody waits for it; what was under way is rejected, and whoever sent it has gone. */
function dispose(client: SQL): void {
  client.close({ timeout: 0 }).catch(() => {});
}

async function withTimeout<T>(work: PromiseLike<T>, waitMs: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new StatementTimeout(waitMs)), Math.max(0, waitMs));
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** As a number of eight bytes, whatever its size: the type must not change from call to call. */
function bound(value: Value): string | bigint | null {
  return typeof value === "number" ? BigInt(value) : value;
}

interface DriverResult extends Array<Record<string, unknown>> {
  readonly count: number;
  readonly command: string;
  readonly columns: readonly { readonly name: string; readonly type: number }[];
}

function toQueryResult(result: unknown): QueryResult {
  const { count, command, columns } = result as DriverResult;
  const rows = [...(result as DriverResult)];
  const wide = columns.filter(({ type }) => type === int8 || type === numeric).map(({ name }) => name);
  for (const row of rows) {
    for (const name of wide) row[name] = row[name] === null ? null : Number(row[name]);
  }
  return { rows, changed: changing.has(command) ? count : 0 };
}

/** The numbers of PostgreSQL's types. A sum of BIGINTs is a NUMERIC. */
const int8 = 20;
const numeric = 1700;
const changing = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);
const textsMax = 500;
/** The server gives up a little before us, so that the connection of a slow statement can be kept. */
const serverShare = 0.9;
/** A process that froze in the middle of a transaction does not keep its locks for longer. */
const idleMs = 10_000;
