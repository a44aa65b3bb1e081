import { expect, test } from "bun:test";
import { isWanted, tailLine, type TailedCall } from "../../../src/cli/tail/tail-line.ts";

const call: TailedCall = {
  request_id: "req_1",
  key_name: "laptop",
  operation: "chat",
  model: "fast",
  state: "complete",
  status: 200,
  error: null,
  started_ms: 0,
  took_ms: 812.4,
  first_content_ms: 90,
  output_tokens: 40,
  cost_usd: 0.0012,
  attempts: [
    { channel: "main", outcome: "failed" },
    { channel: "spare", outcome: "answered" },
  ],
};

test("a call is one line, with where it went and what it cost", () => {
  const line = tailLine(call);
  for (const part of ["200 ok", "chat", "fast", "laptop", "main! > spare", "812 ms", "first 90 ms", "40 tokens", "$0.0012", "req_1"]) {
    expect(line).toContain(part);
  }
});

test("what a client wrote cannot move the cursor or add a line", () => {
  expect(tailLine({ ...call, model: "a\u001b[2J\nb", key_name: null })).not.toMatch(/[\u0000-\u001f]/);
});

test("a call is shown when it has ended, and has the words that are looked for", () => {
  const line = tailLine(call);
  expect(isWanted({ ...call, state: "running" }, line, { failed: false, words: [] })).toBe(false);
  expect(isWanted(call, line, { failed: true, words: [] })).toBe(false);
  expect(isWanted(call, line, { failed: false, words: ["FAST", "spare"] })).toBe(true);
  expect(isWanted(call, line, { failed: false, words: ["slow"] })).toBe(false);
});
