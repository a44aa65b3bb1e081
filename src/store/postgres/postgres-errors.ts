import { SQL } from "bun";
import { StorageError } from "../../gateway/storage.ts";

/**
 * An error after which a retry may succeed. `conflict`: a serialization failure, a deadlock or an outdated plan; nothing was done.
 * `too_many_connections`: the server has no free connection slot, or is still starting.
 */
export class TransientError extends StorageError {
  constructor(
    readonly why: "conflict" | "too_many_connections",
    state: string,
  ) {
    super(
      "unavailable",
      why === "conflict"
        ? `A transaction conflicted with another one on PostgreSQL (${state}). Try again.`
        : `PostgreSQL accepts no more connections (${state}). Raise its max_connections or run fewer gateways.`,
    );
  }
}

/** The server is a standby, or was made read-only. Nothing was done, and another server may be the primary. */
export class ReadOnlyError extends StorageError {
  constructor() {
    super("full", "PostgreSQL is read-only (25006). Set the store's address to the primary server, or name all servers in it.");
  }
}

/** A pooler that the address does not mention. */
export function unnamedPooler(how: string): StorageError {
  return new StorageError(
    "unavailable",
    `A pooler such as PgBouncer gives each transaction another connection to PostgreSQL (${how}). Add pooling=transaction to the store's address, as in postgres://host:6432/database?pooling=transaction.`,
  );
}

const conflictStates = new Set(["40001", "40P01", "0A000", "26000"]);
const crowdedStates = new Set(["53300", "57P03"]);

/** Translates a PostgreSQL error into what is wrong and how to fix it. Its messages may quote values, so that few are repeated. */
export function postgresError(error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  const state = error instanceof SQL.PostgresError ? error.errno : undefined;
  if (state === undefined) {
    const code = error instanceof SQL.PostgresError ? error.code : "no connection";
    return new StorageError(
      "unavailable",
      `PostgreSQL cannot be reached (${code}). Check that it runs and that the store's address is right.`,
    );
  }
  if (conflictStates.has(state)) return new TransientError("conflict", state);
  if (crowdedStates.has(state)) return new TransientError("too_many_connections", state);
  if (state === "23505") {
    const { constraint } = error as SQL.PostgresError;
    return new StorageError("conflict", `A row with the same unique value already exists (${constraint ?? state}).`);
  }
  if (state === "42P05") {
    return unnamedPooler(state);
  }
  if (state === "42501") {
    return new StorageError(
      "unavailable",
      `PostgreSQL does not let the user of the store's address do that: ${(error as SQL.PostgresError).message} (${state}). Make it the owner of the database, or of its schema and tables.`,
    );
  }
  if (state === "42704" && (error as SQL.PostgresError).message.includes("configuration parameter")) {
    return new StorageError(
      "unavailable",
      `PostgreSQL does not know a parameter of the store's address: ${(error as SQL.PostgresError).message} (${state}). Remove it there.`,
    );
  }
  switch (state.slice(0, 2)) {
    case "42":
      // Messages of this class name only tables and columns.
      return new StorageError(
        "damaged",
        `The store does not match this version of Sluice: ${(error as SQL.PostgresError).message} (${state}). Run the version that wrote it, or restore a backup.`,
      );
    case "28":
    case "3D":
      return new StorageError(
        "unavailable",
        `PostgreSQL rejected the login (${state}). Check the user, the password and the database in the store's address.`,
      );
    case "XX":
      // An internal error, as which poolers and hosted servers report a server that does not start or cannot be reached.
      if (state === "XX000") break;
      return new StorageError("damaged", `PostgreSQL reports damaged data (${state}). Check its log, and restore a backup if necessary.`);
    case "22":
    case "23":
      return new StorageError("damaged", `PostgreSQL rejected the values (${state}).`);
    default:
      break;
  }
  if (state === "53100") return new StorageError("full", `The disk of PostgreSQL is full (${state}). Free some space on it.`);
  if (state === "25006") return new ReadOnlyError();
  if (state === "57014") return new StorageError("unavailable", `A statement exceeded its time limit on PostgreSQL (${state}).`);
  return new StorageError("unavailable", `PostgreSQL failed with SQLSTATE ${state}. Check its log.`);
}
