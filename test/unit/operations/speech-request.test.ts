import { describe, expect, test } from "bun:test";
import { characterCount } from "../../../src/operations/speech/sentences.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { type SpeechRequest, readSpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import fc from "fast-check";
import { anyText } from "../../support/properties.ts";

const limits = { charactersMax: 20 };

function read(body: string | object): SpeechRequest | Failure {
  return readSpeechRequest(Buffer.from(typeof body === "string" ? body : JSON.stringify(body)), limits);
}

function asked(body: string | object): SpeechRequest {
  const ask = read(body);
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  return ask;
}

function refused(body: string | object): Failure {
  const refusal = read(body);
  if (!isFailure(refusal)) throw new Error("it was accepted");
  expect(refusal).toMatchObject({ kind: "invalid_request", status: 400, type: "invalid_request_error" });
  return refusal;
}

const plain = { model: "tts-1", input: "Hello.", voice: "alloy" };

describe("a speech request", () => {
  test("is read with its defaults, and keeps its bytes", () => {
    const body = Buffer.from(JSON.stringify(plain));
    expect(readSpeechRequest(body, limits)).toMatchObject({
      operation: "speech",
      body,
      model: "tts-1",
      input: "Hello.",
      characters: 6,
      voice: "alloy",
      format: "mp3",
      events: false,
    });
  });

  test("is read with everything it may say, and with what nobody has heard of", () => {
    const ask = asked({ ...plain, response_format: "opus", speed: 4, stream_format: "sse", instructions: "slowly", x_new: [{}] });
    expect(ask).toMatchObject({ format: "opus", events: true });
    expect(asked({ ...plain, stream_format: "audio", speed: 0.25 }).events).toBe(false);
    expect(asked({ ...plain, response_format: null, speed: null, stream_format: null })).toMatchObject({ format: "mp3", events: false });
  });

  test("may name its voice by an object, which then has no name here", () => {
    expect(asked({ ...plain, voice: { id: "voice_1", more: 1 } }).voice).toBeNull();
  });

  test("is decided by the last of several values, as everywhere", () => {
    expect(asked('{"model":"a","model":"b","input":"x","voice":"v","voice":"w"}')).toMatchObject({ model: "b", voice: "w" });
  });

  test.each([
    ["model", { input: "a", voice: "b" }],
    ["input", { model: "a", voice: "b" }],
    ["voice", { model: "a", input: "b" }],
    ["voice", { ...plain, voice: null }],
    ["voice.id", { ...plain, voice: {} }],
  ])("without %s is told so", (param, body) => {
    expect(refused(body)).toMatchObject({ code: "missing_required_parameter", param });
  });

  test.each([
    ["model", { ...plain, model: 1 }, "invalid_type"],
    ["input", { ...plain, input: ["a"] }, "invalid_type"],
    ["input", { ...plain, input: "" }, "invalid_value"],
    ["voice", { ...plain, voice: [] }, "invalid_type"],
    ["voice", { ...plain, voice: "" }, "invalid_value"],
    ["voice.id", { ...plain, voice: { id: 1 } }, "invalid_type"],
    ["voice.id", { ...plain, voice: { id: "" } }, "invalid_value"],
    ["response_format", { ...plain, response_format: "ogg" }, "invalid_value"],
    ["response_format", { ...plain, response_format: 1 }, "invalid_type"],
    ["speed", { ...plain, speed: "1" }, "invalid_type"],
    ["speed", { ...plain, speed: 0.24 }, "invalid_value"],
    ["speed", { ...plain, speed: 4.01 }, "invalid_value"],
    ["stream_format", { ...plain, stream_format: "events" }, "invalid_value"],
    ["model", { ...plain, model: "m".repeat(513) }, "string_above_max_length"],
  ])("with a wrong %s is told so: %j", (param, body, code) => {
    expect(refused(body)).toMatchObject({ code, param });
  });

  test("with a format that does not exist is told those that do", () => {
    const { publicMessage } = refused({ ...plain, response_format: "ogg" });
    for (const format of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) expect(publicMessage).toContain(`'${format}'`);
  });

  test("with a speed beyond every number is refused", () => {
    expect(refused('{"model":"a","input":"b","voice":"c","speed":1e999}')).toMatchObject({ param: "speed", code: "invalid_value" });
  });

  test("with a text that is too long is told how long it is and may be, in characters and not in bytes", () => {
    expect(asked({ ...plain, input: "👩".repeat(20) }).characters).toBe(20);
    const refusal = refused({ ...plain, input: "👩".repeat(21) });
    expect(refusal).toMatchObject({ code: "string_above_max_length", param: "input" });
    expect(refusal.publicMessage).toContain("21 characters");
    expect(refusal.publicMessage).toContain("20");
    expect(asked(`{"model":"a","voice":"b","input":"${"\\ud800".repeat(20)}"}`).characters).toBe(20);
    expect(refused(`{"model":"a","voice":"b","input":"${"\\ud800".repeat(21)}"}`).param).toBe("input");
  });

  test.each([
    ["nothing", ""],
    ["no JSON", "{"],
    ["no object", "[]"],
    ["half a character", '{"model":"\xff"}'],
  ])("that is %s is refused", (_, body) => {
    expect(isFailure(readSpeechRequest(Buffer.from(body, "latin1"), limits))).toBe(true);
  });

  test("that is nested too deeply is refused as such", () => {
    expect(refused(`{"x":${"[".repeat(100)}${"]".repeat(100)}}`).code).toBe("json_too_complex");
  });

  test("counts Unicode characters", () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        expect(characterCount(text)).toBe([...text].length);
      }),
    );
  });
});
