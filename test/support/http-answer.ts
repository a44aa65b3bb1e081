import type { HeadOutput, HttpResponse, ResponseHead } from "../../src/net/server/http-response.ts";

/** An answer of the edge as a client would see it. Not for streams. */
export function asResponse({ status, head, body }: HttpResponse): Response {
  const text = `x-request-id: ${headText(head)}`;
  const lines = text.split("\r\n").filter((line) => line !== "");
  const headers = lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)] as [string, string]);
  if (typeof body === "object" && !(body instanceof Uint8Array)) throw new Error("a stream");
  return new Response(body as BodyInit, { status, headers });
}

/** The lines of a head, from the value of its request id on. */
export function headText(head: ResponseHead): string {
  return written((output) => head.putOn(output, "", false));
}

/** What is written, as text. */
export function written(write: (output: HeadOutput) => void): string {
  let text = "";
  const put = (more: string): void => void (text += more);
  write({
    put: (bytes) => put(Buffer.from(bytes).toString("latin1")),
    putText: put,
    putNumber: (value) => put(String(value)),
    putHeadEnd: () => put("\r\n\r\n"),
  });
  return text;
}
