import { createHash, createHmac } from "node:crypto";

export interface ExpectedKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | null;
  readonly region: string;
}

/** Computes the signature of a request anew from what arrived, as the upstream does. Written from AWS's description, not from ours. */
export function isSigned(request: Request, body: Uint8Array, expected: ExpectedKeys): boolean {
  const { pathname, search } = new URL(request.url);
  const form = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=(\w{64})$/;
  const [, id, day = "", region = "", service = "", names = "", signature] = form.exec(request.headers.get("authorization") ?? "") ?? [];
  const time = request.headers.get("x-amz-date") ?? "";
  const path = pathname
    .split("/")
    .map((segment) => encodeURIComponent(segment))
    .join("/");
  const headers = names.split(";").map((name) => `${name}:${request.headers.get(name) ?? ""}\n`);
  const hash = (data: string | Uint8Array) => createHash("sha256").update(data).digest("hex");
  const canonical = `${request.method}\n${path}\n${search.slice(1)}\n${headers.join("")}\n${names}\n${hash(body)}`;
  const text = `AWS4-HMAC-SHA256\n${time}\n${day}/${region}/${service}/aws4_request\n${hash(canonical)}`;
  let key: Buffer = Buffer.from(`AWS4${expected.secretAccessKey}`);
  for (const part of [day, region, service, "aws4_request"]) key = createHmac("sha256", key).update(part).digest();
  const sentMs = Date.parse(time.replace(/^(....)(..)(..T..)(..)(..Z)$/, "$1-$2-$3:$4:$5"));
  return (
    Math.abs(Date.now() - sentMs) < 300_000 &&
    id === expected.accessKeyId &&
    region === expected.region &&
    service === "bedrock" &&
    request.headers.get("x-amz-security-token") === expected.sessionToken &&
    ["host", "x-amz-date"].every((name) => names.split(";").includes(name)) &&
    createHmac("sha256", key).update(text).digest("hex") === signature
  );
}
