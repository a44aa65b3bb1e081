/**
 * Checks the `Host` of a request, against DNS rebinding: a web page can point its own name to this machine and then call the admin
 * API from the browser of an operator, but such a request still has the name of that site as its host.
 */
export function makeHostCheck(boundHost: string, names: readonly string[]): (header: string | null) => boolean {
  const allowed = new Set(
    ["localhost", "127.0.0.1", "[::1]", bracketed(boundHost), ...names.map(bracketed)].map((name) => name.toLowerCase()),
  );
  const everywhere = boundHost === "0.0.0.0" || boundHost === "::";
  return (header) => {
    const [, name = ""] = /^(\[[\da-fA-F:.]+\]|[^:[\]/@,\s]+)(?::\d{1,5})?$/.exec(header ?? "") ?? [];
    // Bound to all addresses of the machine, any address is allowed: no name was resolved, so there was nothing to rebind.
    return name !== "" && (allowed.has(name.toLowerCase()) || (everywhere && isAddress(name)));
  };
}

function isAddress(name: string): boolean {
  return name.startsWith("[") || /^\d{1,3}(\.\d{1,3}){3}$/.test(name);
}

function bracketed(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
