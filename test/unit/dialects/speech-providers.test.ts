import { describe, expect, test } from "bun:test";
import { cartesiaSpeech } from "../../../src/dialects/cartesia/speech.ts";
import { deepgramSpeech, voiceModel } from "../../../src/dialects/deepgram/speech.ts";
import type { Codec, EncodedRequest } from "../../../src/dialects/dialect.ts";
import { elevenlabsSpeech } from "../../../src/dialects/elevenlabs/speech.ts";
import { presetNamed } from "../../../src/dialects/presets.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { readSpeechRequest, type SpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import { headOf, noTools, play, targetOf, tone, type TargetOptions } from "../../support/speech-world.ts";

interface Sent extends Pick<EncodedRequest, "voice" | "dropped"> {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

function sentBy(codec: Codec<SpeechRequest>, fields: object, options: TargetOptions): Sent {
  const ask = asked(fields);
  const made = codec.encode(ask, targetOf(options));
  if (isFailure(made)) throw new Error(made.publicMessage);
  const { pathname, searchParams } = new URL(made.request.url);
  const { voice, dropped = [] } = made;
  const body: unknown = JSON.parse(Buffer.from(made.request.body as Uint8Array).toString());
  return { path: pathname, query: Object.fromEntries(searchParams), headers: made.request.headers, body, voice, dropped };
}

function asked(fields: object): SpeechRequest {
  const ask = readSpeechRequest(Buffer.from(JSON.stringify({ model: "m", input: "Hello.", voice: "alloy", ...fields })), {
    charactersMax: 4096,
  });
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  return ask;
}

function voicesOf(provider: string) {
  const voices = presetNamed(provider)?.voices ?? null;
  return voices === null ? {} : { voices };
}

describe("speech over Deepgram", () => {
  const options = { speechPath: "/speak", model: "aura-2", ...voicesOf("deepgram") };
  const sent = (fields: object, more: TargetOptions = {}): Sent => sentBy(deepgramSpeech, fields, { ...options, ...more });

  test("is a text, with the voice and the format in the query", () => {
    const { path, query, body, voice, dropped, headers } = sent({});
    expect({ path, query, body }).toEqual({
      path: "/v1/speak",
      query: { model: "aura-2-asteria-en", encoding: "mp3" },
      body: { text: "Hello." },
    });
    expect({ voice, dropped }).toEqual({ voice: "aura-2-asteria-en", dropped: [] });
    expect(headers).toMatchObject({ "content-type": "application/json", accept: "audio/mpeg, */*;q=0.1" });
  });

  test.each([
    ["opus", { encoding: "opus", container: "ogg" }],
    ["aac", { encoding: "aac" }],
    ["flac", { encoding: "flac", sample_rate: "48000" }],
    ["wav", { encoding: "linear16", container: "wav", sample_rate: "24000" }],
    ["pcm", { encoding: "linear16", container: "none", sample_rate: "24000" }],
  ])("asks for %s as it is", (response_format, query) => {
    expect(sent({ response_format }).query).toEqual({ model: "aura-2-asteria-en", ...query });
  });

  test.each([
    ["aura-2", "thalia", "aura-2-thalia-en"],
    ["aura-2", "celeste-es", "aura-2-celeste-es"],
    ["aura-2", "aura-2-thalia-en", "aura-2-thalia-en"],
    ["aura", "asteria", "aura-asteria-en"],
    // The family is that of the model: a key that may use one must not get another by naming a voice.
    ["aura", "aura-2-thalia-en", "aura-thalia-en"],
    ["aura-2-zeus-en", "thalia", "aura-2-zeus-en"],
  ])("of the model %s with the voice %s is %s", (model, voice, full) => {
    expect(voiceModel(model, voice)).toBe(full);
  });

  test("has the speed that the voice can have, and says if that is not the client's", () => {
    expect(sent({ speed: 1.2 })).toMatchObject({ query: { speed: "1.2" }, dropped: [] });
    expect(sent({ speed: 4 })).toMatchObject({ query: { speed: "1.5" }, dropped: ["speed"] });
    const german = sent({ speed: 1.2, voice: "lara-de" });
    expect(german.query).not.toHaveProperty("speed");
    expect(german.dropped).toEqual(["speed"]);
  });

  test("names what has no place", () => {
    expect(sent({ instructions: "Calmly.", user: "u" }).dropped).toEqual(["instructions", "user"]);
  });

  test("is billed by the characters that the answer states", async () => {
    const made = deepgramSpeech.encode(asked({}), targetOf(options));
    if (isFailure(made) || made.answer.kind !== "stream") throw new Error("it is a stream");
    const mp3 = await tone("mp3");
    for (const [stated, characters] of [
      ["42", 42],
      ["many", 6],
      ["99999999999", 6],
    ] as const) {
      const head = { status: 200, header: (name: string) => (name === "dg-char-count" ? stated : headOf("audio/mpeg").header(name)) };
      const { emissions } = await play(await made.answer.reader(head, noTools), [mp3]);
      expect(emissions.at(-2)).toMatchObject({ usage: { characters } });
    }
  });
});

describe("speech over ElevenLabs", () => {
  const options = { speechPath: "/text-to-speech", model: "eleven_flash_v2_5", ...voicesOf("elevenlabs") };
  const sent = (fields: object, more: TargetOptions = {}): Sent => sentBy(elevenlabsSpeech, fields, { ...options, ...more });

  test("has the voice in its path", () => {
    const { path, query, body, voice } = sent({});
    expect({ path, query, body, voice }).toEqual({
      path: "/v1/text-to-speech/SAz9YHcvj6GT2YYXdXww/stream",
      query: { output_format: "mp3_44100_128" },
      body: { text: "Hello.", model_id: "eleven_flash_v2_5" },
      voice: "SAz9YHcvj6GT2YYXdXww",
    });
    expect(sent({ voice: { id: "own" } }).path).toBe("/v1/text-to-speech/own/stream");
    expect(sent({ voice: "../voices?x=/" }).path).toBe("/v1/text-to-speech/..%2Fvoices%3Fx%3D%2F/stream");
  });

  test.each([".", "..", "a\nb", "x".repeat(300)])("refuses a voice that cannot be one: %j", (voice) => {
    expect(elevenlabsSpeech.encode(asked({ voice }), targetOf(options))).toMatchObject({
      kind: "unsupported",
      param: "voice",
      status: 400,
    });
  });

  test.each([
    ["opus", "opus_48000_128"],
    ["pcm", "pcm_24000"],
    ["wav", "pcm_24000"],
    ["flac", "pcm_24000"],
    ["aac", "pcm_24000"],
  ])("asks for %s as %s", (response_format, output_format) => {
    expect(sent({ response_format }).query).toEqual({ output_format });
  });

  test("passes on the fields of this provider, with the speed among the settings of the voice", () => {
    const own = { language_code: "de", seed: 7, voice_settings: { stability: 0.4 } };
    const { body, dropped } = sent({ ...own, speed: 0.8, instructions: "Calmly." });
    expect(body).toMatchObject({ ...own, voice_settings: { stability: 0.4, speed: 0.8 } });
    expect(dropped).toEqual(["instructions"]);
    expect(sent({ speed: 2 })).toMatchObject({ body: { voice_settings: { speed: 1.2 } }, dropped: ["speed"] });
  });
});

describe("speech over Cartesia", () => {
  const options = { speechPath: "/tts/bytes", model: "sonic-3.5", ...voicesOf("cartesia") };
  const sent = (fields: object, more: TargetOptions = {}): Sent => sentBy(cartesiaSpeech, fields, { ...options, ...more });

  test("has the version of the API, which a channel may change", () => {
    const { path, body, headers } = sent({});
    expect({ path, body }).toEqual({
      path: "/v1/tts/bytes",
      body: {
        model_id: "sonic-3.5",
        transcript: "Hello.",
        voice: { mode: "id", id: "f786b574-daa5-4673-aa0c-cbe3e8534c02" },
        output_format: { container: "mp3", sample_rate: 44_100, bit_rate: 128_000 },
      },
    });
    expect(headers["cartesia-version"]).toBe("2026-03-01");
    expect(sent({}, { headers: { "cartesia-version": "2027-01-01" } }).headers["cartesia-version"]).toBe("2027-01-01");
  });

  test.each([
    ["wav", { container: "wav", encoding: "pcm_s16le", sample_rate: 24_000 }],
    ["pcm", { container: "raw", encoding: "pcm_s16le", sample_rate: 24_000 }],
    ["opus", { container: "raw", encoding: "pcm_s16le", sample_rate: 24_000 }],
  ])("asks for %s in the nearest format", (response_format, output_format) => {
    expect(sent({ response_format }).body).toMatchObject({ output_format });
  });

  test("has the speed where the model knows it", () => {
    expect(sent({ speed: 1.3, language: "de" })).toMatchObject({
      body: { language: "de", generation_config: { speed: 1.3 } },
      dropped: [],
    });
    expect(sent({ speed: 0.25 })).toMatchObject({ body: { generation_config: { speed: 0.6 } }, dropped: ["speed"] });
    const older = sent({ speed: 1.3 }, { model: "sonic-2" });
    expect(older.body).not.toHaveProperty("generation_config");
    expect(older.dropped).toEqual(["speed"]);
  });
});

const codecs: Readonly<Record<string, Codec<SpeechRequest>>> = {
  elevenlabs: elevenlabsSpeech,
  deepgram: deepgramSpeech,
  cartesia: cartesiaSpeech,
};

describe("an error of a speech provider", () => {
  const detail = (fields: object): string => JSON.stringify({ detail: fields });
  const noModel = '{"err_code":"Bad Request","err_msg":"No such model/version combination found.","request_id":"r"}';
  const noAccess = '{"err_code":"INSUFFICIENT_PERMISSIONS","err_msg":"Project does not have access to the requested model."}';

  test.each([
    ["elevenlabs", 401, detail({ status: "invalid_api_key", message: "Invalid API key" }), "unauthorized", "credential"],
    ["elevenlabs", 401, detail({ status: "quota_exceeded", message: "0 credits remaining" }), "quota_exhausted", "credential"],
    [
      "elevenlabs",
      402,
      detail({ type: "payment_required", code: "insufficient_credits", message: "Pay." }),
      "quota_exhausted",
      "credential",
    ],
    ["elevenlabs", 429, detail({ status: "too_many_concurrent_requests", message: "Slower." }), "rate_limited", "deployment"],
    ["elevenlabs", 429, detail({ status: "system_busy", message: "Busy." }), "overloaded", "deployment"],
    ["elevenlabs", 400, detail({ status: "max_character_limit_exceeded", message: "Too long." }), "invalid_request", "request"],
    ["elevenlabs", 422, '{"detail":[{"loc":["body","seed"],"msg":"not an integer","type":"int_parsing"}]}', "invalid_request", "request"],
    ["elevenlabs", 404, detail({ type: "not_found", code: "model_not_found", message: "No model x." }), "model_missing", "deployment"],
    ["deepgram", 401, '{"err_code":"INVALID_AUTH","err_msg":"Invalid credentials.","request_id":"r"}', "unauthorized", "credential"],
    ["deepgram", 402, '{"category":"ASR_PAYMENT_REQUIRED","message":"No credits."}', "quota_exhausted", "credential"],
    ["deepgram", 429, '{"err_code":"TOO_MANY_REQUESTS","err_msg":"Too many requests."}', "rate_limited", "deployment"],
    ["deepgram", 413, '{"err_code":"PAYLOAD_TOO_LARGE","err_msg":"Input text exceeds 2000 characters."}', "too_large", "request"],
    ["cartesia", 401, '{"error_code":null,"title":"Unauthorized","message":"Bad key.","request_id":"r"}', "unauthorized", "credential"],
    ["cartesia", 402, '{"error_code":"quota_exceeded","title":"No credits","message":"None left."}', "quota_exhausted", "credential"],
    ["cartesia", 429, '{"error_code":"concurrency_limited","title":"Too many","message":"Too many."}', "rate_limited", "deployment"],
    ["cartesia", 500, '{"error_code":null,"title":"Error","message":"The voice service is not available."}', "overloaded", "deployment"],
  ])("of %s with status %i is told by its body: %s", (provider, status, body, kind, scope) => {
    expect(codecs[provider]?.explain({ status, header: () => null, body })).toMatchObject({ kind, scope });
  });

  test.each([
    ["elevenlabs", 404, detail({ status: "voice_not_found", message: "A voice with the voice_id x was not found." })],
    ["elevenlabs", 400, detail({ type: "validation_error", code: "invalid_parameters", message: "Wrong.", param: "voice_id" })],
    ["elevenlabs", 402, detail({ code: "paid_plan_required", message: "Free users cannot use library voices via the API." })],
    ["deepgram", 400, noModel],
    ["deepgram", 403, noAccess],
    ["cartesia", 404, '{"error_code":"voice_not_found","title":"Voice not found","message":"There is none."}'],
    ["cartesia", 400, "Invalid voice: the id is not a UUID"],
  ])("of %s about a voice is the client's mistake, and never charged to the channel: %i %s", (provider, status, body) => {
    const cause = codecs[provider]?.explain({ status, header: () => null, body });
    expect(cause).toMatchObject({ kind: "unsupported", blame: "client", scope: "request", status: 400, param: "voice" });
    expect(cause?.publicMessage).not.toBe("");
  });
});

test.each(["deepgram", "elevenlabs", "cartesia"])("%s has a voice for each of the OpenAI API", (provider) => {
  const names = presetNamed(provider)?.voices?.names;
  for (const voice of ["alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse"]) {
    expect(names?.get(voice)).toBeString();
  }
});
