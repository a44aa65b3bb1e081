import { createHash, createHmac } from "node:crypto";
import type { AwsKeys } from "../../channels/channel-auth.ts";

export interface SignedRequest {
  readonly method: string;
  readonly url: string;
  /** The headers to sign, with lower-case names, `host` among them. Others may be sent beside them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
}

export interface SigningScope {
  readonly region: string;
  readonly service: string;
}

/**
 * The headers that sign a request (AWS Signature Version 4): the time, the session token of temporary keys, and the signature over
 * those and the request. Everything is hashed synchronously, since a request of this size takes less time than a promise.
 */
export function signatureHeaders(request: SignedRequest, keys: AwsKeys, scope: SigningScope, wallMs: number): Record<string, string> {
  const time = timestamp(wallMs);
  const day = time.slice(0, 8);
  const added = {
    "x-amz-date": time,
    ...(keys.sessionToken === null ? undefined : { "x-amz-security-token": keys.sessionToken }),
  };
  const headers = Object.entries({ ...request.headers, ...added })
    .map(([name, value]) => [name.toLowerCase(), value.trim().replace(/ +/g, " ")] as const)
    .sort(([one], [other]) => (one < other ? -1 : 1));
  const names = headers.map(([name]) => name).join(";");
  const { pathname, searchParams } = new URL(request.url);
  const canonical = [
    request.method,
    canonicalPath(pathname),
    canonicalQuery(searchParams),
    ...headers.map(([name, value]) => `${name}:${value}`),
    "",
    names,
    sha256(request.body ?? new Uint8Array()),
  ].join("\n");
  const credentialScope = `${day}/${scope.region}/${scope.service}/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", time, credentialScope, sha256(canonical)].join("\n");
  const signature = hmac(signingKey(keys.secretAccessKey, day, scope), text).toString("hex");
  const credential = `${keys.accessKeyId}/${credentialScope}`;
  return {
    ...added,
    authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

/** The key changes once a day. It is derived anew for each request: four short hashes. */
export function signingKey(secretAccessKey: string, day: string, { region, service }: SigningScope): Buffer {
  return [day, region, service, "aws4_request"].reduce<Buffer>(hmac, Buffer.from(`AWS4${secretAccessKey}`));
}

/** Such as `20150830T123600Z`. */
function timestamp(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/[:-]|\.\d{3}/g, "");
}

/** The path as it is sent, each segment encoded once more, as every service but one wants it. */
function canonicalPath(pathname: string): string {
  return pathname.split("/").map(encoded).join("/");
}

function canonicalQuery(query: URLSearchParams): string {
  return [...query]
    .map(([name, value]) => [encoded(name), encoded(value)] as const)
    .sort(([one, a], [other, b]) => (one === other ? (a < b ? -1 : 1) : one < other ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join("&");
}

function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
