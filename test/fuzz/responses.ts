import { readResponse } from "../../src/dialects/openai-responses/answer.ts";
import { DeclaredTools } from "../../src/dialects/openai-responses/items.ts";
import { spliceResponsesBody } from "../../src/dialects/openai-responses/native-body.ts";
import { ResponsesStream } from "../../src/dialects/openai-responses/stream.ts";
import { EventReader } from "../../src/dialects/readers/event-reader.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { responsesSurface } from "../../src/surfaces/index.ts";
import {
  customCall,
  eventStream,
  functionCall,
  message,
  reasoning,
  refusal,
  response,
  responseEvents,
} from "../support/responses-script.ts";
import type { FuzzTarget } from "./target.ts";

const items = [reasoning("enc", "a"), message("hi"), refusal("no"), functionCall("c", "f", "{}", "n"), customCall("d", "p", "x")];
const tools = new DeclaredTools([]);

/** Whatever an upstream of the Responses API answers is read or a failure, and a client's request in it stays JSON: nothing is thrown. */
export const responsesTarget: FuzzTarget = {
  name: "responses",
  seeds: [
    eventStream(responseEvents(items)),
    eventStream(responseEvents([message("hi")], { status: "incomplete", incomplete_details: { reason: "content_filter" } })),
    eventStream([{ type: "response.failed", response: response([], { status: "failed", error: { code: "server_error", message: "x" } }) }]),
    JSON.stringify(response(items)),
    `{"model":"m","input":[{"type":"reasoning","id":"rs_sluice_1","summary":[],"encrypted_content":"sluice-v1.x"},{"role":"user","content":"x"},
      {"type":"reasoning","encrypted_content":"e"}],"max_output_tokens":500,"model":"n"}`,
  ],
  words: [
    ...['"type":', '"item":', '"response":', '"output":', '"output_index":', '"delta":', '"summary":', '"encrypted_content":', '"usage":'],
    ...[
      "event: response.completed\n",
      "data: ",
      "\n\n",
      "[DONE]",
      '"rs_sluice_"',
      '"sluice-v1."',
      "null",
      "[]",
      "{}",
      "-1",
      "1e999",
      ",",
      "[[[[",
    ],
  ],
  check: (input) => [streamed(input, null), streamed(input, tools), whole(input), native(input)].join(";"),
};

function streamed(input: Uint8Array, declared: DeclaredTools | null): string {
  const reader = new EventReader(new ResponsesStream(declared));
  const read = reader.push(input);
  if (isFailure(read)) return read.kind;
  const closed = reader.pending ?? reader.close();
  const kinds = read.map((emission) => (emission.kind === "delta" ? emission.output : emission.kind));
  return [...new Set(kinds), isFailure(closed) ? closed.kind : "ended"].join();
}

function whole(input: Uint8Array): string {
  const read = readResponse(input, tools);
  return isFailure(read) ? read.kind : `${read.finish} ${read.answer?.parts.map(({ kind }) => kind).join()}`;
}

function native(input: Uint8Array): string {
  const ask = responsesSurface.parse(input);
  if (isFailure(ask)) return `${ask.code}`;
  const { body } = spliceResponsesBody(ask, { model: "up", ceiling: 16, unseal: () => null });
  const sent = JSON.parse(new TextDecoder().decode(body)) as { readonly model: unknown };
  if (sent.model !== "up") throw new Error("it names another model");
  return "sent";
}
