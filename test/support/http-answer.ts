import type { HttpResponse } from "../../src/net/server/http-response.ts";

/** An answer of the edge as a client would see it. Not for streams. */
export function asResponse({ status, head, body }: HttpResponse): Response {
  const text = `x-request-id: ${head.toText("", false)}`;
  const lines = text.split("\r\n").filter((line) => line !== "");
  const headers = lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as [string, string]);
  if (typeof body === "object" && !(body instanceof Uint8Array)) throw new Error("a stream");
  return new Response(body as BodyInit, { status, headers });
}
