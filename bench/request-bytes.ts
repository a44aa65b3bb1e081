import type { Asked, AskedBody } from "./ask.ts";
import { formBytes } from "./form.ts";

/** Who is asked, and as whom. */
export interface Addressee {
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A request as it is written to a connection. */
export function requestBytes({ origin, headers }: Addressee, { method, path, body: asked }: Asked): Buffer {
  const body = bodyOf(asked);
  const lines = Object.entries({
    host: new URL(origin).host,
    ...headers,
    ...(body === null ? {} : { "content-type": body.type, "content-length": String(body.bytes.length) }),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  return body === null ? head : Buffer.concat([head, body.bytes]);
}

function bodyOf(body: AskedBody): { readonly type: string; readonly bytes: Buffer } | null {
  switch (body.kind) {
    case "none":
      return null;
    case "json":
      return { type: "application/json", bytes: Buffer.from(body.text) };
    case "form":
      return formBytes(body.model, body.fileBytes);
  }
}
