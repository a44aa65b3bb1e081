import type { Inbox } from "../inbox.ts";

/** One request as it came over the wire. */
export interface ChaosRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly head: Uint8Array;
  /** Without chunk framing. */
  readonly body: Uint8Array;
}

export type ChaosHead = Omit<ChaosRequest, "body">;

/** The head of the next request on a connection; null when the peer ends first, or speaks something other than HTTP/1. */
export async function readHead(inbox: Inbox): Promise<ChaosHead | null> {
  const head = await inbox.readThrough("\r\n\r\n");
  if (head === null) return null;
  const [requestLine = "", ...lines] = head.toString("latin1").trimEnd().split("\r\n");
  const [method, path, version] = requestLine.split(" ");
  if (method === undefined || path === undefined || !version?.startsWith("HTTP/1.")) return null;
  return { method, path, headers: lines.map(headerOf), head };
}

export async function readRest(inbox: Inbox, head: ChaosHead): Promise<ChaosRequest | null> {
  const body = await readBody(inbox, head.headers);
  return body === null ? null : { ...head, body };
}

/** Only so much of the body, or all where it is shorter. */
export async function readBeginning(inbox: Inbox, head: ChaosHead, bytes: number): Promise<ChaosRequest | null> {
  const body = await inbox.readExactly(Math.min(bytes, Number(header(head, "content-length") ?? 0)));
  return body === null ? null : { ...head, body };
}

export function header(request: ChaosHead, name: string): string | null {
  return valueOf(request.headers, name);
}

function valueOf(headers: ChaosRequest["headers"], name: string): string | null {
  return headers.find(([candidate]) => candidate.toLowerCase() === name)?.[1] ?? null;
}

function headerOf(line: string): [string, string] {
  const colon = line.indexOf(":");
  return [line.slice(0, colon), line.slice(colon + 1).trim()];
}

async function readBody(inbox: Inbox, headers: ChaosRequest["headers"]): Promise<Uint8Array | null> {
  if (/chunked/i.test(valueOf(headers, "transfer-encoding") ?? "")) return readChunks(inbox);
  return inbox.readExactly(Number(valueOf(headers, "content-length") ?? 0));
}

async function readChunks(inbox: Inbox): Promise<Uint8Array | null> {
  const chunks: Buffer[] = [];
  for (;;) {
    const size = parseInt((await inbox.readThrough("\r\n"))?.toString("latin1") ?? "", 16);
    if (Number.isNaN(size)) return null;
    if (size === 0) break;
    const chunk = await inbox.readExactly(size + 2);
    if (chunk === null) return null;
    chunks.push(chunk.subarray(0, size));
  }
  for (;;) {
    const trailer = await inbox.readThrough("\r\n");
    if (trailer === null) return null;
    if (trailer.length === 2) return Buffer.concat(chunks);
  }
}
