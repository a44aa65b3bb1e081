/** How a store on PostgreSQL is backed up and restored with the tools of PostgreSQL. */
export interface PostgresDump {
  readonly backup: string;
  /** All of it or nothing: everything is replaced in one transaction. All gateways of the store must be stopped. */
  readonly restore: string;
  /** The address leads to a pooler of transactions, which these tools cannot use. */
  readonly throughPooler: boolean;
}

/** The commands for a shell, with the address of the store, but for its password. */
export function postgresDump(store: string): PostgresDump {
  const { address, isPooled } = withoutPassword(store);
  const quoted = `'${address.replaceAll("'", "%27")}'`;
  return {
    backup: `pg_dump --format=custom --file=sluice.dump ${quoted}`,
    // With --clean alone, constraints of partitions are dropped before their table, which PostgreSQL refuses.
    restore:
      "pg_restore --clean --if-exists --file=sluice.sql sluice.dump && psql --quiet --single-transaction --set=ON_ERROR_STOP=1 " +
      `--command='drop table if exists receipts, attempts' --file=sluice.sql ${quoted}`,
    throughPooler: isPooled,
  };
}

/** What cannot be read is replaced as a whole: it may hold the password anywhere. */
function withoutPassword(store: string): { readonly address: string; readonly isPooled: boolean } {
  const [, scheme, authority = "", path = "", query = ""] =
    /^(postgres(?:ql)?:\/\/)([^/?#]*)(\/[\w.%-]*)?(?:\?([^#]*))?$/i.exec(store) ?? [];
  const at = authority.lastIndexOf("@");
  const [user = ""] = authority.slice(0, Math.max(0, at)).split(":");
  const hosts = authority.slice(at + 1);
  const parameters = query.split("&").filter((text) => text !== "");
  const isPooled = parameters.includes("pooling=transaction");
  // An unescaped mark in the password ends what looks like the servers.
  const isPlain = /^[\w.%~+-]*$/.test(user) && hosts.split(",").every((host) => serverPattern.test(host)) && !query.includes("@");
  if (scheme === undefined || !isPlain) return { address: "postgres://USER@HOST:5432/DATABASE", isPooled };
  // Of the parameters, `pooling` is not known to these tools, and only these are certain to hold nothing secret.
  const kept = parameters.filter((text) => /^(?:sslmode|sslrootcert|target_session_attrs|connect_timeout)=[\w./%-]*$/.test(text));
  // With several servers, one that takes writes is meant.
  if (hosts.includes(",") && !kept.some((text) => text.startsWith("target_session_attrs="))) kept.push("target_session_attrs=read-write");
  const address = `${scheme}${user === "" ? "" : `${user}@`}${hosts}${path}${kept.length === 0 ? "" : `?${kept.join("&")}`}`;
  return { address, isPooled };
}

const serverPattern = /^(?:[\w.%-]+|\[[\da-f:.]+\])?(?::\d+)?$/i;
