import { ClientOutput } from "../../src/net/server/client-output.ts";
import type { HttpResponse, ResponseHead } from "../../src/net/server/http-response.ts";

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

/** What a client gets of what is put into its output, as text. */
export function written(put: (output: ClientOutput) => void): string {
  const sent: Uint8Array[] = [];
  const write = (bytes: Uint8Array, offset = 0, length = bytes.length): number => {
    sent.push(bytes.slice(offset, offset + length));
    return length;
  };
  const output = new ClientOutput({ write }, { nowMs: () => 0 }, () => {});
  output.begin();
  put(output);
  output.send();
  return Buffer.concat(sent).toString("latin1");
}
