import { dlopen, FFIType, ptr } from "bun:ffi";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { eventually } from "../eventually.ts";

/** A reset destroys what the peer has not read yet: one that reads is left the time for it, and a short rest in any case. */
export async function untilRead(socket: Socket, restMs = 20): Promise<void> {
  await Bun.sleep(restMs);
  await eventually("the peer has read all", () => socket.destroyed || !unreadBytes(socket), 1_000).catch(() => {});
}

/** How many bytes wait in the system for a peer on this machine to read them; null where the system does not tell, or it is gone. */
function unreadBytes({ localAddress, localPort, remoteAddress, remotePort }: Socket): number | null {
  if (localPort === undefined || remotePort === undefined) return null;
  const own = { address: localAddress ?? "", port: localPort };
  const peer = { address: remoteAddress ?? "", port: remotePort };
  // This socket exists. Where the kernel does not say so, it does not answer such questions at all.
  answers ??= bytesToRead(own, peer) !== null;
  return answers ? bytesToRead(peer, own) : listedBytes(peer, own);
}

let answers: boolean | null = null;

interface End {
  readonly address: string;
  readonly port: number;
}

/**
 * Asks the kernel about one connection (sock_diag(7)). The list of all of them has a line for each that was closed in the last minute:
 * thousands in a run of the suite, and ten milliseconds to read.
 */
function bytesToRead(from: End, to: End): number | null {
  if (library === undefined) library = openLibrary();
  if (library === null) return null;
  const asked = Buffer.alloc(requestBytes);
  asked.writeUInt32LE(requestBytes, 0);
  asked.writeUInt16LE(byFamily, 4);
  asked.writeUInt16LE(isRequest, 6);
  asked.writeUInt8(ipv4, 16);
  asked.writeUInt8(tcp, 17);
  asked.writeUInt32LE(0xffff_ffff, 20);
  asked.writeUInt16BE(from.port, 24);
  asked.writeUInt16BE(to.port, 26);
  asked.set(from.address.split(".").map(Number), 28);
  asked.set(to.address.split(".").map(Number), 44);
  // Any cookie.
  asked.fill(0xff, 64, 72);
  const answer = Buffer.alloc(512);
  const { socket, send, recv, close } = library;
  // Not kept: tests count the descriptors of this process.
  const descriptor = socket(netlink, raw | closedOnExec, sockDiag);
  if (descriptor < 0) return null;
  try {
    if (Number(send(descriptor, ptr(asked), requestBytes, doNotWait)) !== requestBytes) return null;
    const length = Number(recv(descriptor, ptr(answer), answer.length, doNotWait));
    // An error, such as that there is no such connection, has another type.
    return length >= 76 && answer.readUInt16LE(4) === byFamily ? answer.readUInt32LE(72) : null;
  } finally {
    close(descriptor);
  }
}

const requestBytes = 72;
const byFamily = 20;
const isRequest = 1;
const ipv4 = 2;
const tcp = 6;
const doNotWait = 0x40;

const netlink = 16;
const raw = 3;
const closedOnExec = 0x8_0000;
const sockDiag = 4;

/** Null where there is no such library. */
let library: ReturnType<typeof openLibrary> | undefined;

function openLibrary() {
  const { i32, i64, u64 } = FFIType;
  try {
    return dlopen("libc.so.6", {
      socket: { args: [i32, i32, i32], returns: i32 },
      send: { args: [i32, FFIType.ptr, u64, i32], returns: i64 },
      recv: { args: [i32, FFIType.ptr, u64, i32], returns: i64 },
      close: { args: [i32], returns: i32 },
    }).symbols;
  } catch {
    return null;
  }
}

/** The same by the list of all connections, for kernels that answer no such questions. */
function listedBytes(from: End, to: End): number | null {
  // Number, local address, remote address, state, and the two queues as `to send:to read`, all in hexadecimal digits.
  const line = new RegExp(`^ *\\d+: [0-9A-F]+:${digits(from.port)} [0-9A-F]+:${digits(to.port)} .. [0-9A-F]+:([0-9A-F]+) `, "m");
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
