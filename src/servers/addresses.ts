/** One of the servers that an address names. */
export interface ServerAddress {
  /** Such as `db1:5432`: without a password, so that messages may show it. */
  readonly host: string;
  /** The address of this server alone. */
  readonly url: string;
}

/**
 * The servers of an address such as `postgres://user:password@db1:5432,db2:5432/sluice`, in its order. Null if a name is missing
 * between the commas, or if there are too many.
 */
export function serverAddresses(address: string): readonly ServerAddress[] | null {
  const [, scheme = "", authority = "", rest = ""] = /^([a-z0-9+]+:\/\/)([^/?#]*)(.*)$/is.exec(address) ?? [];
  const hostsFrom = authority.lastIndexOf("@") + 1;
  const hosts = authority.slice(hostsFrom).split(",");
  if (scheme === "" || hosts.length > hostsMax || (hosts.length > 1 && hosts.includes(""))) return null;
  return hosts.map((host) => ({ host, url: scheme + authority.slice(0, hostsFrom) + host + rest }));
}

/** More than any installation has, and few enough to try one after the other. */
const hostsMax = 8;
