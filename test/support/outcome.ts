import { expect } from "bun:test";
import type { Chaos } from "./chaos.ts";
import type { ChatReply } from "./chat.ts";
import type { Row } from "./stage.ts";

/** The client has the whole answer of one upstream: well formed, ended once, and nothing of another's in it. */
export function expectWhole(row: Row, reply: ChatReply, upstream: Chaos): void {
  expect({ status: reply.status, error: reply.error }).toEqual({ status: 200, error: null });
  expect(reply.content).not.toBe("");
  expect(reply.content).toBe(row.sent(reply, upstream));
  expect(reply.finishReason).toBe("stop");
  expect(reply.response.endedCleanly).toBe(true);
  expect(reply.response.header("x-content-type-options")).toBe("nosniff");
  if (!reply.response.header("content-type")?.startsWith("text/event-stream")) {
    return expect(reply.response.header("content-type")).toBe("application/json");
  }
  expect(reply.events.filter((data) => data === "[DONE]").length).toBe(1);
  expect(reply.done).toBe(true);
  expect(reply.events.filter((data) => data.includes('"role":"assistant"')).length).toBe(1);
}

/** An error with its status and code, in the envelope, and none of the attempts left for the client to repeat. */
export function expectRefusal(reply: ChatReply, status: number, code: string | null): void {
  expect({ status: reply.status, code: reply.error?.code }).toEqual({ status, code });
  expect(Object.keys(reply.error ?? {})).toEqual(expect.arrayContaining(["message", "type", "param", "code"]));
  expect(reply.error?.message).toMatch(/\S/);
  expect(reply.error?.type).toMatch(/^\w+$/);
  expect(reply.response.header("content-type")).toBe("application/json");
  expect(reply.requestId).not.toBeNull();
  expect(reply.response.endedCleanly).toBe(true);
}

/** Exactly this text, then one error event, and nothing that could pass for an end. */
export function expectInterrupted(reply: ChatReply, text: string): void {
  expect(reply.status).toBe(200);
  expect(reply.content).toBe(text);
  expectToldInBand(reply, "upstream_stream_interrupted");
  expect(reply.error?.type).toBe("upstream_error");
}

/** A stream that ends with this error as its last event, and without an end mark. */
export function expectToldInBand(reply: ChatReply, code: string): void {
  expect(reply.status).toBe(200);
  expect(reply.error?.code).toBe(code);
  expect(JSON.parse(reply.events.at(-1) ?? "null")).toHaveProperty("error.message");
  expect(reply.events.filter((data) => data.includes('"error"')).length).toBe(1);
  expect(reply.events).not.toContain("[DONE]");
  expect(reply.finishReason).toBeNull();
  // A reset could destroy the error in the client's own buffer.
  expect(reply.response.endedCleanly).toBe(true);
}
