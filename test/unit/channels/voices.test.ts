import { describe, expect, test } from "bun:test";
import { voiceFor } from "../../../src/channels/voice.ts";
import type { Voices } from "../../../src/channels/channel.ts";
import { isFailure } from "../../../src/operations/failure.ts";

const names = new Map([
  ["alloy", "en-us-1"],
  ["nova", "en-us-2"],
  ["same", "same"],
]);
const unchanged = { voice: null, reported: null };

function voices(unknown: Voices["unknown"], fallback: string | null = null): Voices {
  return { names, unknown, fallback };
}

describe("a voice", () => {
  test.each(["pass", "refuse", "replace"] as const)("of the list is translated and reported, whatever the setting: %s", (rule) => {
    expect(voiceFor(voices(rule), "alloy")).toEqual({ voice: "en-us-1", reported: "en-us-1" });
    expect(voiceFor(voices(rule), "same")).toEqual(unchanged);
  });

  test.each(["pass", "refuse", "replace"] as const)("that is an upstream name is sent unchanged, whatever the setting: %s", (rule) => {
    expect(voiceFor(voices(rule, "en-us-9"), "en-us-2")).toEqual(unchanged);
    expect(voiceFor(voices(rule, "en-us-9"), null)).toEqual(unchanged);
  });

  test("that is unknown is passed, refused or replaced, as the channel is set", () => {
    expect(voiceFor(voices("pass"), "echo")).toEqual(unchanged);
    expect(voiceFor(voices("replace", "en-us-9"), "echo")).toEqual({ voice: "en-us-9", reported: "en-us-9" });
    expect(voiceFor(voices("replace", "nova"), "echo")).toEqual({ voice: "en-us-2", reported: "en-us-2" });
    expect(voiceFor(voices("replace", "en-us-9"), "en-us-9")).toEqual(unchanged);
    expect(voiceFor(voices("replace"), "echo")).toEqual(unchanged);
  });

  test("that is refused is refused with the names that are known, and another channel may have it", () => {
    const refusal = voiceFor(voices("refuse"), "echo");
    if (!isFailure(refusal)) throw new Error("it was accepted");
    expect(refusal).toMatchObject({
      kind: "unsupported",
      code: "invalid_value",
      param: "voice",
      type: "invalid_request_error",
      status: 400,
    });
    for (const name of names.keys()) expect(refusal.publicMessage).toContain(`'${name}'`);
  });

  test("that is refused cannot make the refusal long", () => {
    const many: Voices = {
      names: new Map(Array.from({ length: 5_000 }, (_, at) => [`v${at}`, `w${at}`])),
      unknown: "refuse",
      fallback: null,
    };
    const refusal = voiceFor(many, "x".repeat(100_000));
    if (!isFailure(refusal)) throw new Error("it was accepted");
    expect(refusal.publicMessage.length).toBeLessThan(1_500);
    expect(refusal.publicMessage).toContain("4936 more");
  });
});
