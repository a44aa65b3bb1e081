/** The address of a listener. */
export interface Listen {
  readonly host: string;
  readonly port: number;
  /** A unix socket, which only this machine can connect to. The host is then `localhost`, and the port 0. */
  readonly path?: string;
}

export const portMax = 65_535;

/** The digits after the last colon of an address, even if they are not a valid port; null if there are none. */
export function portBehind(text: string): string | null {
  return (
    /^[^:]*:(-?\d+)$|\]:(-?\d+)$/
      .exec(text)
      ?.slice(1)
      .find((port) => port !== undefined) ?? null
  );
}

/** Parses `HOST:PORT`, with an IPv6 host in brackets. With port 0 the system chooses one. */
export function parseListen(text: string): Listen | null {
  const match = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})))?:(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || !(port <= portMax)) return null;
  if (match?.[1] !== undefined && !URL.canParse(`http://[${host}]/`)) return null;
  return { host, port };
}

/** Parses what `parseListen` does, or the path of a unix socket, as in `unix:/run/sluice.sock`. */
export function parseListenOrSocket(text: string): Listen | null {
  const path = /^unix:(\/.+)$/.exec(text)?.[1];
  if (path === undefined) return parseListen(text);
  // The system has no room for more (unix(7)).
  return /\p{Cc}/u.test(path) || path.endsWith("/") || new TextEncoder().encode(path).length > socketPathMax
    ? null
    : { host: "localhost", port: 0, path };
}

/** With the byte that ends it, a path has 108 on Linux, and 104 on macOS. */
const socketPathMax = 103;

/** Whether only this machine can connect to the host. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}
