import { describe, expect, test } from "bun:test";
import { channelLine, progressLine, resultLine, verdictText, type ShownLabCall, type ShownLabRun } from "../../../src/cli/lab/lab-lines.ts";

const answered = { sees: "answer", status: 200, code: null, words: 60 } as const;
const call: ShownLabCall = {
  number: 1,
  took_ms: 12,
  attempts: [
    { channel: "lab-a", outcome: "failed", error: "overloaded", hedge: false },
    { channel: "lab-b", outcome: "answered", error: null, hedge: true },
  ],
  client: answered,
};
const run: ShownLabRun = {
  id: "lab-1",
  calls: 3,
  state: "running",
  as_promised: null,
  broken: [],
  channels: [],
  results: [call, { ...call, client: null }],
};
const scenario = { name: "reset", title: "Reset", fault: "It resets.", expected: "lab-b answers.", modes: ["whole"] };

describe("a run of the lab on a terminal", () => {
  test("has a line for each call: what its client saw, how long it took, who was asked", () => {
    expect(resultLine(call)).toMatch(/^ {3}1 {2}answer, 60 words +12 ms {2}lab-a overloaded > lab-b \(hedge\) answered$/);
    const cut = { ...call, client: { sees: "interruption", status: 200, code: "upstream_stream_interrupted", words: 40 } } as const;
    expect(resultLine(cut)).toContain("40 words, then upstream_stream_interrupted");
    const refused = { ...call, attempts: [], client: { sees: "error", status: 503, code: "no_channel_available", words: 0 } } as const;
    expect(resultLine(refused)).toMatch(/503 no_channel_available .*nobody was asked$/);
    const mixed = { ...call, client: { ...answered, sees: "wrong", words: 61 } } as const;
    expect(resultLine(mixed)).toContain("61 words that are not the answer");
  });

  test("says which channels may be asked, and which when", () => {
    expect(channelLine({ name: "lab-b", asked: 2, breaker: null })).toBe("lab-b: asked 2 times, may be asked");
    const breaker = { state: "half_open", cause: "overloaded", for_ms: 1200 };
    expect(channelLine({ name: "lab-a", asked: 1, breaker })).toBe("lab-a: asked 1 time, half-open (overloaded), again in 2 s");
  });

  test("says how far it is, and at the end whether the outcome is as promised", () => {
    expect(progressLine(run)).toBe("1 of 3 calls have ended");
    expect(progressLine({ ...run, state: "ended" })).toBeNull();
    expect(verdictText({ ...run, as_promised: true }, scenario)).toBe("As promised: lab-b answers.");
    expect(verdictText({ ...run, as_promised: false, broken: ["Call 1: no."] }, scenario)).toBe(
      "Not as promised.\n  Call 1: no.\nExpected: lab-b answers.",
    );
    expect(verdictText(run, scenario)).toContain("ended before");
  });
});
