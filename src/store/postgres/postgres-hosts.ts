import { StorageError } from "../../gateway/storage.ts";
import { serverAddresses, type ServerAddress } from "../../servers/addresses.ts";
import { AllFailed } from "../../servers/first-to-succeed.ts";
import { PrimaryChoice } from "../../servers/primary-choice.ts";
import { PostgresConnection } from "./postgres-connection.ts";
import { TransientError } from "./postgres-errors.ts";

/**
 * The servers that the address of a store names: a primary and its standbys. With several of them, only a server that takes writes
 * is used, whichever it is at the moment; the one that was last comes first.
 */
export class PostgresHosts {
  private readonly choice: PrimaryChoice;
  private readonly needsPrimary: boolean;
  /** The address says that a pooler gives each transaction another connection. */
  readonly isPooled: boolean;

  constructor(address: string) {
    const { hosts, isPooled } = readAddress(address);
    this.choice = new PrimaryChoice(hosts, staggerMs);
    this.needsPrimary = hosts.length > 1;
    this.isPooled = isPooled;
  }

  async open(statementMs: number, waitMs: number, isPooled = this.isPooled): Promise<PostgresConnection> {
    const options = { needsPrimary: this.needsPrimary, isPooled, statementMs };
    const deadlineMs = performance.now() + waitMs;
    const { inOrder } = this.choice;
    try {
      return await this.choice.connect(
        ({ url }) => PostgresConnection.open(url, options, deadlineMs - performance.now()),
        (late) => late.discard(),
      );
    } catch (error) {
      throw error instanceof AllFailed ? noneOf(inOrder, error.errors) : error;
    }
  }
}

/** The servers of an address, without what libpq or we understand and the driver does not. */
function readAddress(address: string): { readonly hosts: readonly ServerAddress[]; readonly isPooled: boolean } {
  const [, before = address, query = ""] = /^([^?#]*)\?([^#]*)$/.exec(address) ?? [];
  const parameters = query === "" ? [] : query.split("&");
  const [wanted] = parameters.flatMap((text) => /^target_session_attrs=(.*)$/.exec(text)?.[1] ?? []);
  if (wanted !== undefined && wanted !== "read-write" && wanted !== "primary") {
    throw new StorageError(
      "unavailable",
      "The store's address has a target_session_attrs that allows a standby, but the store is written to: write read-write, or leave it out.",
    );
  }
  const pooling = parameters.flatMap((text) => /^pooling=(.*)$/.exec(text)?.[1] ?? []).at(-1) ?? "session";
  if (pooling !== "session" && pooling !== "transaction") {
    throw new StorageError("unavailable", "The store's address has a pooling that is neither transaction nor session.");
  }
  const kept = parameters.filter((text) => !/^(target_session_attrs|pooling)=/.test(text));
  const hosts = serverAddresses(kept.length === 0 ? before : `${before}?${kept.join("&")}`);
  if (hosts !== null) return { hosts, isPooled: pooling === "transaction" };
  throw new StorageError(
    "unavailable",
    "The store's address is not a PostgreSQL URL: write postgres://user:password@host:5432/database, with host:5432,host2:5432 for a primary and its standbys.",
  );
}

/** What to say when no server can be used. One that is only crowded or still starting is worth another try. */
function noneOf(hosts: readonly ServerAddress[], errors: readonly unknown[]): unknown {
  if (hosts.length <= 1) return errors[0];
  const transient = errors.find((error) => error instanceof TransientError);
  if (transient !== undefined) return transient;
  const reasons = hosts.map(({ host }, at) => `${host}: ${errors[at] instanceof StorageError ? errors[at].message : "it failed"}`);
  return new StorageError(
    "unavailable",
    `None of the store's ${hosts.length} servers is a primary that can be reached. ${reasons.join(" ")}`,
  );
}

/** Longer than a healthy server takes, even in another zone, and far shorter than a statement may take. */
const staggerMs = 250;
