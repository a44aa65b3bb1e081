import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { eventually } from "../eventually.ts";

/** A reset destroys what the peer has not read yet: one that reads is left the time for it, and a short rest in any case. */
export async function untilRead(socket: Socket, restMs = 20): Promise<void> {
  await Bun.sleep(restMs);
  await eventually("the peer has read all", () => socket.destroyed || !unreadBytes(socket), 1_000).catch(() => {});
}

/** How many bytes wait in the system for a peer on this machine to read them; null where the system does not tell, or it is gone. */
function unreadBytes({ localPort, remotePort }: Socket): number | null {
  if (localPort === undefined || remotePort === undefined) return null;
  // Number, local address, remote address, state, and the two queues as `to send:to read`, all in hexadecimal digits.
  const line = new RegExp(`^ *\\d+: [0-9A-F]+:${digits(remotePort)} [0-9A-F]+:${digits(localPort)} .. [0-9A-F]+:([0-9A-F]+) `, "m");
  const unread = line.exec(connections())?.[1];
  return unread === undefined ? null : Number.parseInt(unread, 16);
}

function digits(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, "0");
}

/** Shared by all who ask within some milliseconds: the list of a busy machine is long, and many upstreams end at once. */
function connections(): string {
  const nowMs = performance.now();
  if (nowMs - latest.readMs > latestMsMax) latest = { readMs: nowMs, text: readConnections() };
  return latest.text;
}

/** Less than the shortest rest before somebody asks, so that what he sent is in every list that he is shown. */
const latestMsMax = 5;
let latest = { readMs: -Infinity, text: "" };

function readConnections(): string {
  try {
    return readFileSync("/proc/net/tcp", "latin1");
  } catch {
    return "";
  }
}
