import { Worker } from "node:worker_threads";
import { StorageError } from "../../gateway/storage.ts";
import type { Sql } from "../sql.ts";
import type { SqliteSettings } from "./sqlite-connection.ts";
import { SerialDatabase, type SerialConnection } from "./serial-database.ts";
import type {
  ThreadOptions,
  ThreadReply,
  ThreadRequest,
  ThreadStatement,
  ThreadTable,
  ThreadTables,
  ThreadTransaction,
} from "./thread-message.ts";

/**
 * A SQLite file in a worker thread, so that a slow statement does not block this one. If the worker dies, its pending statements
 * are rejected as `unavailable`, and the next statement starts a new worker.
 */
export class ThreadDatabase extends SerialDatabase {
  private readonly thread: ThreadConnection;

  constructor(
    readonly file: string,
    { busyMs = 5_000, readonly = false }: SqliteSettings = {},
    restMs: number | null = null,
  ) {
    const thread = new ThreadConnection({ file, busyMs, readonly }, { restMs });
    super(thread);
    this.thread = thread;
  }

  /**
   * A query outside of a transaction does not wait for one: a transaction is many messages, each of which may have to wait until a busy
   * process has time for it, and calls wait for the keys that are looked up.
   */
  override async all<Row extends object>(query: Sql): Promise<Row[]> {
    if (!isQuery(query)) return this.thread.whileBusy(() => super.all<Row>(query));
    this.rejectIfClosed();
    this.mutex.rejectReentry();
    return this.thread.read<Row>(query);
  }

  /** Each time it waits for its turn again, so that it does not become part of a transaction that began meanwhile. */
  override async run(query: Sql): Promise<number> {
    return this.thread.whileBusy(() => super.run(query));
  }

  /**
   * A method of a table of the worker: all of its statements are one message. A transaction keeps all other writers out of the file, and
   * must not wait, statement by statement, until a thread that serves calls has time for it. `newId` makes the ids of audit entries, if it
   * writes any.
   */
  method<Table extends ThreadTable, Name extends string & keyof ThreadTables[Table]>(
    table: Table,
    name: Name,
    newId: (() => string) | null = null,
  ): (...given: MethodArguments<ThreadTables[Table][Name]>) => Promise<MethodResult<ThreadTables[Table][Name]>> {
    return async (...given) => {
      this.rejectIfClosed();
      const work = (): Promise<unknown> =>
        this.thread.transact({ action: "transact", table, method: name, given, auditId: newId?.() ?? null });
      return (await this.mutex.runExclusive(work)) as MethodResult<ThreadTables[Table][Name]>;
    };
  }
}

type MethodArguments<Method> = Method extends (...given: infer Given) => unknown ? Given : never;
type MethodResult<Method> = Method extends (...given: never) => Promise<infer Result> ? Result : never;

/** A connection in a worker, which is started on first use, and again after it was lost or had nothing to do for `restMs`. */
export class ThreadConnection implements SerialConnection {
  private worker: Worker | null = null;
  private waiting = new Map<number, PendingStatement>();
  private lastId = 0;
  /** The worker in which the current transaction began. A new worker knows nothing of it. */
  private began: Worker | null = null;
  private restTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly opening: ThreadOptions,
    private readonly settings: { readonly script?: URL; readonly restMs?: number | null } = {},
  ) {}

  get isRunning(): boolean {
    return this.worker !== null;
  }

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    return (await this.statement("all", query)) as Row[];
  }

  async read<Row extends object>({ texts, values }: Pick<Sql, "texts" | "values">): Promise<Row[]> {
    return (await this.send({ action: "read", texts, values })) as Row[];
  }

  async run(query: Sql): Promise<number> {
    return (await this.statement("run", query)) as number;
  }

  async begin(): Promise<void> {
    await this.whileBusy(() => this.beginOnce());
  }

  /** Nothing has been done where the store was busy, so that the request can be sent again. */
  async transact(transaction: ThreadTransaction): Promise<unknown> {
    return this.whileBusy(() => this.ask(transaction));
  }

  /** The worker waits for another writer only for a moment at a time, so that it can answer queries meanwhile. */
  async whileBusy<T>(attempt: () => Promise<T>): Promise<T> {
    const untilMs = performance.now() + this.opening.busyMs;
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof StorageError && error.isBusy) || performance.now() >= untilMs) throw error;
      }
    }
  }

  private async beginOnce(): Promise<void> {
    const asked = this.statement("begin");
    this.began = this.worker;
    try {
      await asked;
    } catch (error) {
      this.began = null;
      throw error;
    }
  }

  async commit(): Promise<void> {
    await this.statement("commit");
    this.began = null;
  }

  async rollback(): Promise<void> {
    const isThere = this.began !== null && this.began === this.worker;
    this.began = null;
    if (isThere) await this.statement("rollback");
  }

  /** Ends the worker now instead of after `restMs`, unless somebody uses it. */
  rest(): void {
    if (this.restTimer === null || this.began !== null) return;
    this.endRest();
    this.retire();
  }

  async close(): Promise<void> {
    this.endRest();
    const { worker } = this;
    if (worker === null) return;
    try {
      await this.statement("close");
    } finally {
      this.forget(worker);
      await worker.terminate();
    }
  }

  private async statement(action: ThreadStatement["action"], { texts, values }: Pick<Sql, "texts" | "values"> = nothing): Promise<unknown> {
    return this.ask({ action, texts, values });
  }

  private async ask(asked: ThreadStatement | ThreadTransaction): Promise<unknown> {
    if (this.began !== null && this.began !== this.worker) throw lost();
    return this.send(asked);
  }

  private async send(asked: ThreadStatement | ThreadTransaction): Promise<unknown> {
    this.endRest();
    const worker = (this.worker ??= this.started());
    this.lastId += 1;
    const request: ThreadRequest = { id: this.lastId, ...asked };
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    // Only pending statements keep the process alive.
    if (this.waiting.size === 0) worker.ref();
    this.waiting.set(request.id, { resolve, reject });
    worker.postMessage(request, []);
    return promise;
  }

  private started(): Worker {
    const worker = new Worker(this.settings.script ?? databaseThread, { workerData: this.opening });
    worker.unref();
    worker.on("message", (reply: ThreadReply) => this.settle(worker, reply));
    worker.on("error", () => {
      this.forget(worker);
      void worker.terminate();
    });
    worker.on("exit", () => this.forget(worker));
    return worker;
  }

  private settle(worker: Worker, reply: ThreadReply): void {
    const waiting = this.waiting.get(reply.id);
    if (this.worker !== worker || waiting === undefined) return;
    this.waiting.delete(reply.id);
    if (this.waiting.size === 0) {
      worker.unref();
      this.beginRest();
    }
    if ("error" in reply) waiting.reject(new StorageError(reply.error.kind, reply.error.message, reply.error.isBusy));
    else waiting.resolve(reply.value);
  }

  private beginRest(): void {
    const { restMs } = this.settings;
    if (restMs == null) return;
    this.restTimer = setTimeout(() => {
      this.restTimer = null;
      // A transaction is not interrupted: the rest begins after it.
      if (this.began === null) this.retire();
    }, restMs);
    this.restTimer.unref();
  }

  private endRest(): void {
    if (this.restTimer !== null) clearTimeout(this.restTimer);
    this.restTimer = null;
  }

  /** Lets go of the worker before it has closed its connection, so that a statement which comes meanwhile gets a new one. */
  private retire(): void {
    const { worker } = this;
    if (worker === null) return;
    this.worker = null;
    worker.once("message", () => void worker.terminate());
    const request: ThreadRequest = { id: 0, action: "close", ...nothing };
    worker.postMessage(request, []);
  }

  private forget(worker: Worker): void {
    if (this.worker !== worker) return;
    this.worker = null;
    const waiting = this.waiting;
    this.waiting = new Map();
    for (const { reject } of waiting.values()) reject(lost());
  }
}

interface PendingStatement {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Statements that begin otherwise may write and return rows. */
function isQuery({ texts }: Sql): boolean {
  return /^\s*select\b/i.test(texts[0] ?? "");
}

const databaseThread = new URL("./database-thread.ts", import.meta.url);
const nothing: Pick<Sql, "texts" | "values"> = { texts: [], values: [] };

function lost(): StorageError {
  return new StorageError("unavailable", "The store's thread stopped before it answered. Try again.");
}
