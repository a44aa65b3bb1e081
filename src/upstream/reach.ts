import net from "node:net";
import tls from "node:tls";
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
    const asked = { askedMs: now, answer };
    known.set(host, asked);
    // Bad news is shared only with those who wait for it: the next attempt may find the host back, and gets its whole time.
    void answer.then((reached) => {
      if (!reached && known.get(host) === asked) known.delete(host);
    });
    return answer;
  };
}

const sharedForMs = 10_000;

/** By node's sockets, because one of them can be called off while it still connects. */
function connects(channel: Channel, withinMs: number): Promise<boolean> {
  const url = new URL(channel.address.baseUrl);
  const secure = url.protocol === "https:";
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = Number(url.port || (secure ? 443 : 80));
  return new Promise((resolve) => {
    const settle = (reached: boolean): void => {
      clearTimeout(timer);
      resolve(reached);
      socket.destroy();
    };
    const timer = setTimeout(() => settle(false), withinMs);
    // Whether the certificate is good is for the real request to find out; here it only has to be spoken of.
    const socket = secure
      ? tls.connect({ host, port, rejectUnauthorized: false, ...(net.isIP(host) === 0 ? { servername: host } : undefined) })
      : net.connect({ host, port });
    socket.once(secure ? "secureConnect" : "connect", () => settle(true));
    socket.on("error", () => settle(false));
    socket.once("close", () => settle(false));
  });
}
