import { SQL, type ReservedSQL } from "bun";
import { StorageError } from "../../gateway/storage.ts";
import { postgresError, ReadOnlyError } from "./postgres-errors.ts";
import { textOf, valuesOf, type Sql, type Value } from "../sql.ts";

/** The rows of a statement, with BIGINT as numbers, and how many rows it changed. */
export interface QueryResult {
  readonly rows: object[];
  readonly changed: number;
}

/**
 * One connection that runs one statement at a time. After an error of the connection or a timeout it is `closed` for good. It is
 * never reconnected, because a new connection would not be in the transaction of the old one.
 */
export class PostgresConnection {
  closed = false;
  private readonly texts = new Set<string>();

  constructor(
    private readonly client: SQL,
    private readonly reserved: ReservedSQL,
    private readonly options: ConnectionOptions,
  ) {}

  /** Also sets `statement_timeout` on the server, so that it stops working on statements that nobody waits for. */
  static async open(url: string, options: ConnectionOptions, waitMs: number): Promise<PostgresConnection> {
    const state: { connection?: PostgresConnection } = {};
    const client = clientFor(url, options, () => {
      if (state.connection !== undefined) state.connection.closed = true;
    });
    try {
      return await withTimeout(configured(client, options, state), waitMs);
    } catch (error) {
      dispose(client);
      throw postgresError(error);
    }
  }

  async send(query: Sql, waitMs: number): Promise<QueryResult> {
    const text = textOf(query, "$");
    this.texts.add(text);
    return toQueryResult(await this.execute(() => this.reserved.unsafe(text, valuesOf(query).map(bound)), waitMs));
  }

  /** With a pooler, the timeouts are those of the transaction: in the session they would be those of whoever uses it next. */
  async begin(waitMs: number): Promise<void> {
    const text = this.options.isPooled ? pooledBegin(this.options.statementMs) : "begin";
    await this.execute(() => this.reserved.unsafe(text), waitMs);
  }

  private async execute<T>(run: () => PromiseLike<T>, waitMs: number): Promise<T> {
    if (this.closed) throw new StorageError("unavailable", "The connection to PostgreSQL was lost.");
    try {
      return await withTimeout(run(), waitMs);
    } catch (error) {
      // The reply may still arrive, and would be taken for that of the next statement.
      const described = postgresError(error);
      // Nor does a server that became a standby take writes again; another connection may lead to the new primary.
      if (error instanceof StatementTimeout || described instanceof ReadOnlyError) this.discard();
      throw described;
    }
  }

  /** The driver and the server cache each prepared statement of a connection. Few programs ever send this many. */
  get hasTooManyStatements(): boolean {
    return this.texts.size > textsMax;
  }

  discard(): void {
    this.closed = true;
    dispose(this.client);
  }
}

export interface ConnectionOptions {
  readonly statementMs: number;
  /** Rejects a server that takes no writes. */
  readonly needsPrimary: boolean;
  /** A pooler gives each transaction another connection to the server, so that nothing may depend on the session. */
  readonly isPooled: boolean;
}

/** PostgreSQL did not reply in time. */
export class StatementTimeout extends StorageError {
  constructor(waitMs: number) {
    super("unavailable", `PostgreSQL did not answer within ${Math.round(waitMs)} ms.`);
  }
}

function clientFor(url: string, { isPooled }: ConnectionOptions, onclose: () => void): SQL {
  try {
    return new SQL({
      url,
      adapter: "postgres",
      // We pool connections ourselves, because the driver's pool cannot drop a connection that hangs.
      max: 1,
      bigint: true,
      idleTimeout: 0,
      maxLifetime: 0,
      connectionTimeout: 0,
      prepare: !isPooled,
      connection: { application_name: "sluice" },
      onclose,
    });
  } catch {
    // The driver's message may contain the password.
    throw new StorageError(
      "unavailable",
      "The store's address is not a PostgreSQL URL: write postgres://user:password@host:5432/database.",
    );
  }
}

async function configured(
  client: SQL,
  options: ConnectionOptions,
  state: { connection?: PostgresConnection },
): Promise<PostgresConnection> {
  const reserved = await client.reserve();
  const connection = new PostgresConnection(client, reserved, options);
  state.connection = connection;
  const { statement, idle } = serverTimeouts(options.statementMs);
  const readOnly = "select current_setting('transaction_read_only') as read_only";
  const [row] = (await (options.isPooled
    ? reserved.unsafe(readOnly)
    : reserved.unsafe(
        `${readOnly}, set_config('statement_timeout', $1, false), set_config('idle_in_transaction_session_timeout', $2, false)`,
        [String(statement), String(idle)],
      ))) as readonly { readonly read_only: string }[];
  if (options.needsPrimary && row?.read_only === "on") throw new ReadOnlyError();
  return connection;
}

function serverTimeouts(statementMs: number): { readonly statement: number; readonly idle: number } {
  return { statement: Math.ceil(statementMs * serverShare), idle: Math.max(statementMs, idleMs) };
}

/** Three statements in one message. */
function pooledBegin(statementMs: number): string {
  const { statement, idle } = serverTimeouts(statementMs);
  return `begin; set local statement_timeout = ${statement}; set local idle_in_transaction_session_timeout = ${idle}`;
}

/** Closes the client in the background. Pending statements are rejected; their callers have given up. */
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

/** Numbers are always sent as BIGINT, so that a prepared statement has the same types in each call. */
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

/** OIDs of PostgreSQL's types. The sum of BIGINTs is a NUMERIC. */
const int8 = 20;
const numeric = 1700;
const changing = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);
const textsMax = 500;
/** The server's timeout is a little shorter than ours, so that a slow statement does not cost its connection. */
const serverShare = 0.9;
/** How long a transaction may be idle, so that a process that hangs does not hold its locks for longer. */
const idleMs = 10_000;
