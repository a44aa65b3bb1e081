import { SQL } from "bun";
import { StorageTrouble } from "../../gateway/storage.ts";

/**
 * Trouble after which the same may succeed. `conflictStates`: a serialization failure, a deadlock or an outdated plan, after which
 * nothing was done; `crowdedStates`: the server has no place for one more connection, or is just starting.
 */
export class TransientError extends StorageTrouble {
  constructor(
    readonly why: "conflict" | "too_many_connections",
    state: string,
  ) {
    super(
      "unavailable",
      why === "conflict"
        ? `PostgreSQL could not do it beside what others did (${state}). Try again.`
        : `PostgreSQL takes no more connections (${state}). Raise its max_connections or run fewer gateways.`,
    );
  }
}

const conflictStates = new Set(["40001", "40P01", "0A000", "26000"]);
const crowdedStates = new Set(["53300", "57P03"]);

/** What the server says, as what went wrong and how it is mended. Its messages may quote values, so that few are repeated. */
export function postgresError(error: unknown): StorageTrouble {
  if (error instanceof StorageTrouble) return error;
  const state = error instanceof SQL.PostgresError ? error.errno : undefined;
  if (state === undefined) {
    const code = error instanceof SQL.PostgresError ? error.code : "no connection";
    return new StorageTrouble(
      "unavailable",
      `PostgreSQL cannot be reached (${code}). Check that it runs and that the store's address is right.`,
    );
  }
  if (conflictStates.has(state)) return new TransientError("conflict", state);
  if (crowdedStates.has(state)) return new TransientError("too_many_connections", state);
  if (state === "23505") {
    const { constraint } = error as SQL.PostgresError;
    return new StorageTrouble("conflict", `There is one already (${constraint ?? state}).`);
  }
  switch (state.slice(0, 2)) {
    case "42":
      // It names tables and columns only.
      return new StorageTrouble(
        "damaged",
        `The store does not fit this version of the program: ${(error as SQL.PostgresError).message} (${state}).`,
      );
    case "28":
    case "3D":
      return new StorageTrouble(
        "unavailable",
        `PostgreSQL lets us in no database (${state}). Check the user, the password and the database in the store's address.`,
      );
    case "XX":
      return new StorageTrouble("damaged", `PostgreSQL reports damage (${state}). Look into its log, and restore a backup if need be.`);
    case "22":
    case "23":
      return new StorageTrouble("damaged", `PostgreSQL does not take these values (${state}).`);
    default:
      break;
  }
  if (state === "53100") return new StorageTrouble("full", `The disk of PostgreSQL is full (${state}). Make room on it.`);
  if (state === "25006") {
    return new StorageTrouble("full", `PostgreSQL takes no writes (${state}). Point the store's address at the server that does.`);
  }
  if (state === "57014") return new StorageTrouble("unavailable", `A statement took PostgreSQL too long (${state}).`);
  return new StorageTrouble("unavailable", `PostgreSQL cannot do it now (${state}).`);
}
