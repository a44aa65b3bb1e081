import { describe, expect, test } from "bun:test";
import { requireText, textCharactersMax } from "../../../packages/embedded/src/server/fields.ts";
import { isRequestError } from "../../../packages/embedded/src/server/request-error.ts";
import { readTranscriptionForm } from "../../../packages/embedded/src/server/transcription-form.ts";

describe("a text's bound", () => {
  test("counts characters, not the units they are stored in", () => {
    expect(requireText({ input: "😀".repeat(4096) }, "input", 4096)).toBeNull();
    expect(requireText({ input: `${"😀".repeat(4096)}a` }, "input", 4096)).toMatchObject({
      code: "string_above_max_length",
      param: "input",
    });
    expect(requireText({ input: "a".repeat(4096) }, "input", 4096)).toBeNull();
    expect(requireText({ input: "a".repeat(4097) }, "input", 4096)).not.toBeNull();
    expect(requireText({ input: "😀".repeat(5000) }, "input", 4096)).not.toBeNull();
  });

  test("is a million where nobody names another", () => {
    expect(requireText({ input: "a".repeat(textCharactersMax) }, "input")).toBeNull();
    expect(requireText({ input: "a".repeat(textCharactersMax + 1) }, "input")).not.toBeNull();
    expect(textCharactersMax).toBe(1_000_000);
  });
});

describe("a form for a transcript", () => {
  function read(fields: readonly (readonly [string, string])[]): ReturnType<typeof readTranscriptionForm> {
    const body = new FormData();
    for (const [name, value] of [["model", "whisper"] as const, ...fields]) body.append(name, value);
    body.append("file", new Blob(["audio"]), "a.wav");
    return readTranscriptionForm(new Request("http://engine/", { method: "POST", body }));
  }

  test.each([
    ["include[]", "logprobs", "include"],
    ["include", "logprobs", "include"],
    ["known_speaker_names[]", "Ada", "known_speaker_names"],
    ["known_speaker_names", "Ada", "known_speaker_names"],
    ["known_speaker_references[]", "data:audio/wav;base64,AAAA", "known_speaker_references"],
    ["chunking_strategy", '{"type":"server_vad"}', "chunking_strategy"],
    ["chunking_strategy[type]", "server_vad", "chunking_strategy"],
  ])("is refused for %s=%s, which the model cannot obey", async (name, value, param) => {
    expect(await read([[name, value]])).toMatchObject({ status: 400, code: "unsupported_parameter", param });
  });

  test.each([
    ["chunking_strategy", "auto"],
    ["chunking_strategy", ""],
    ["include[]", ""],
    ["included", "yes"],
    ["user", "ada"],
  ])("is taken with %s=%s, which changes nothing", async (name, value) => {
    expect(isRequestError(await read([[name, value]]))).toBe(false);
  });
});
