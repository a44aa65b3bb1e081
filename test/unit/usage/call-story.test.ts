import { describe, expect, test } from "bun:test";
import { causeText, storyOf, verdictText } from "../../../src/usage/call-story.ts";

const call = { state: "complete", channel: "spare", error: null, attempts: [{ outcome: "answered" }] };

describe("the story of a call", () => {
  test.each([
    [call, "spare answered at once."],
    [{ ...call, attempts: [{ outcome: "failed" }, { outcome: "answered" }] }, "spare answered after 1 failed attempt."],
    [{ ...call, state: "failed", error: "no_channel", channel: null, attempts: [] }, "No channel was asked: no channel could be asked."],
    [{ ...call, state: "abandoned" }, "The client left before the answer was complete."],
    [{ ...call, state: "unknown" }, "The gateway was stopped during this call, so that its end is not known."],
  ])("is one sentence", (story, text) => expect(storyOf(story)).toBe(text));
});

test("a word that is not known is shown as it is", () => {
  expect(verdictText("something_new")).toBe("something new");
  expect(causeText("something_new")).toBe("something new");
  expect(causeText(null)).toBe("");
});
