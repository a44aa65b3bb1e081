import type { Channel } from "../channels/channel.ts";

/**
 * Tells whether a host accepts connections at all. The HTTP client does not say when it is connected, so a silent
 * upstream looks like an unreachable one; a call that has waited for a while asks here, and one short connection
 * (with its TLS handshake) tells the two apart. An answer is shared by everyone who asks within a few seconds.
 */
export function makeReach(nowMs: () => number): (channel: Channel, withinMs: number) => Promise<boolean> {
  const known = new Map<string, { readonly askedMs: number; readonly answer: Promise<boolean> }>();

  return function reach(channel, withinMs) {
    if (channel.proxy !== null) return Promise.resolve(true);
    const { host } = channel.address;
    const now = nowMs();
    const last = known.get(host);
    if (last !== undefined && now - last.askedMs < sharedForMs) return last.answer;
    const answer = connects(channel, withinMs);
    known.set(host, { askedMs: now, answer });
    return answer;
  };
}

const sharedForMs = 10_000;

function connects(channel: Channel, withinMs: number): Promise<boolean> {
  const url = new URL(channel.address.baseUrl);
  const secure = url.protocol === "https:";
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  return new Promise((resolve) => {
    let socket: { terminate(): void } | null = null;
    const settle = (reached: boolean): void => {
      clearTimeout(timer);
      // The verdict first: terminating calls `close` before it returns.
      resolve(reached);
      socket?.terminate();
    };
    const timer = setTimeout(() => settle(false), withinMs);
    Bun.connect({
      hostname,
      port: Number(url.port || (secure ? 443 : 80)),
      ...(secure ? { tls: { serverName: hostname, rejectUnauthorized: false } } : undefined),
      socket: {
        open(opened) {
          socket = opened;
          if (!secure) settle(true);
        },
        // Whether the certificate is good is for the real request to find out; here it only has to be spoken of.
        handshake: () => settle(true),
        data() {},
        error: () => settle(false),
        connectError: () => settle(false),
        close: () => settle(false),
      },
    }).catch(() => settle(false));
  });
}
