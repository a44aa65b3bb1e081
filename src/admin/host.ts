/**
 * Which `Host` a request may name. A page of another site can make its own name lead to this machine and then call us from the
 * browser of somebody who may; such a request still names that site.
 */
export function makeHostCheck(boundHost: string, names: readonly string[]): (header: string | null) => boolean {
  const allowed = new Set(
    ["localhost", "127.0.0.1", "[::1]", bracketed(boundHost), ...names.map(bracketed)].map((name) => name.toLowerCase()),
  );
  const everywhere = boundHost === "0.0.0.0" || boundHost === "::";
  return (header) => {
    const [, name = ""] = /^(\[[\da-fA-F:.]+\]|[^:[\]/@,\s]+)(?::\d{1,5})?$/.exec(header ?? "") ?? [];
    // Bound to every address of the machine, each of them is ours; and a bare address was not looked up, so nobody redirected it.
    return name !== "" && (allowed.has(name.toLowerCase()) || (everywhere && isAddress(name)));
  };
}

function isAddress(name: string): boolean {
  return name.startsWith("[") || /^\d{1,3}(\.\d{1,3}){3}$/.test(name);
}

function bracketed(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
