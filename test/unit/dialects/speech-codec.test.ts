import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { EncodedRequest } from "../../../src/dialects/dialect.ts";
import { openaiSpeech } from "../../../src/dialects/openai/speech.ts";
import { formatFor } from "../../../src/dialects/speech/speech-format.ts";
import { audioFormats, type AudioFormat } from "../../../src/media/audio.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { readSpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import { headOf, noTools, targetOf, type TargetOptions } from "../../support/speech-world.ts";

function encode(body: string, options: TargetOptions = {}): EncodedRequest | Failure {
  const ask = readSpeechRequest(Buffer.from(body), { charactersMax: 4096 });
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  return openaiSpeech.encode(ask, targetOf(options));
}

function encoded(body: string, options: TargetOptions = {}): EncodedRequest {
  const made = encode(body, options);
  if (isFailure(made)) throw new Error(made.publicMessage);
  return made;
}

function sent({ request }: EncodedRequest): string {
  return Buffer.from(request.body as Uint8Array).toString();
}

const plain = '{"model":"tts-1","input":"Hello.","voice":"alloy"}';
const mapped = { names: new Map([["alloy", "en-us-1"]]), unknown: "refuse", fallback: null } as const;

describe("a speech request for an upstream with the OpenAI API", () => {
  test("goes to the channel's address, with its headers and with what it may answer in", () => {
    const options = {
      speechPath: "/deployments/{model}/speech",
      query: "?v=1",
      model: "a/b $& c",
      headers: { "x-fixed": "1" },
      forwarded: { "x-fixed": "0", "x-trace": "t" },
    };
    const { request } = encoded(plain, options);
    expect(request).toMatchObject({ method: "POST", url: "https://speech.test/v1/deployments/a%2Fb%20%24%26%20c/speech?v=1" });
    expect(request.headers).toEqual({
      "content-type": "application/json",
      accept: "audio/mpeg, */*;q=0.1",
      "x-fixed": "1",
      "x-trace": "t",
    });
    expect(encoded(plain.replace("}", ',"stream_format":"sse"}')).request.headers["accept"]).toStartWith("text/event-stream, audio/mpeg");
  });

  test("is the very same bytes where nothing has to change", () => {
    const ask = readSpeechRequest(Buffer.from(plain), { charactersMax: 4096 });
    if (isFailure(ask)) throw new Error(ask.publicMessage);
    const made = openaiSpeech.encode(ask, targetOf());
    if (isFailure(made)) throw new Error(made.publicMessage);
    expect(made.request.body).toBe(ask.body);
    expect(made).toMatchObject({ voice: null, clampedTo: null });
  });

  test("has its voice in the channel's words, and tells it", () => {
    const made = encoded(plain, { voices: mapped });
    expect(sent(made)).toBe(plain.replace("alloy", "en-us-1"));
    expect(made.voice).toBe("en-us-1");
    const object = plain.replace('"alloy"', '{"id":"alloy"}');
    expect(sent(encoded(object, { voices: mapped }))).toBe(object);
    expect(encode(plain.replace("alloy", "nova"), { voices: mapped })).toMatchObject({
      kind: "unsupported",
      param: "voice",
      code: "invalid_value",
    });
  });

  test("asks for a format that the channel speaks, and for the client's own wherever it is not known to lack it", () => {
    expect(sent(encoded(plain, { speechFormats: ["pcm", "opus"] }))).toBe(plain.replace("{", '{"response_format":"pcm",'));
    const flac = plain.replace("}", ', "response_format" : "flac" }');
    expect(sent(encoded(flac, { speechFormats: ["mp3", "aac"] }))).toBe(flac.replace('"flac"', '"mp3"'));
    expect(sent(encoded(flac, { speechFormats: ["flac"] }))).toBe(flac);
    expect(sent(encoded(flac))).toBe(flac);
    const empty = plain.replace("}", ',"response_format":null}');
    expect(sent(encoded(empty, { speechFormats: ["wav"] }))).toBe(empty.replace("null", '"wav"'));
    expect(encoded(plain, { speechFormats: ["wav"] }).request.headers["accept"]).toStartWith("audio/wav");
  });

  test("never asks for a format that the channel does not speak, if it speaks any", () => {
    fc.assert(
      fc.property(fc.subarray([...audioFormats], { minLength: 1 }), fc.constantFrom(...audioFormats), (spoken, wanted) => {
        const asked = formatFor(spoken, wanted);
        expect(spoken).toContain(asked);
        if (spoken.includes(wanted)) expect(asked).toBe(wanted);
      }),
    );
    expect(formatFor([], "mp3")).toBe("mp3");
  });

  test("shows every reader the same model, voice and format, however often they stand in it", () => {
    const twice =
      '{"model":"x","model":"tts-1","voice":"secret","voice":"alloy","input":"a","response_format":"aac","response_format":"mp3"}';
    expect(sent(encoded(twice, { voices: mapped, speechFormats: ["pcm"] }))).toBe(
      '{"model":"tts-1","model":"tts-1","voice":"en-us-1","voice":"en-us-1","input":"a","response_format":"pcm","response_format":"pcm"}',
    );
  });

  const space = fc.constantFrom("", "", " ", "\n", "\t", "\r\n ");
  const value = fc.oneof(
    fc.json({ maxDepth: 3 }),
    fc.constantFrom("9007199254740993", "1e400", "-0.0", '"\\ud800"', '"\\/\\u0041"', "null", "[ ]", "{ }"),
  );
  const strangers = fc.array(
    fc.tuple(fc.constantFrom('"instructions"', '"x_new"', '"__proto__"', '"Voices"', '""', '"mod\\u0065l2"'), value),
    { maxLength: 5 },
  );
  const format = fc.option(fc.constantFrom(...audioFormats), { nil: null });

  test("keeps every other byte, wherever things stand in it", () => {
    fc.assert(
      fc.property(
        strangers,
        space,
        format,
        fc.array(fc.nat(1000), { minLength: 12, maxLength: 12 }),
        fc.boolean(),
        (others, gap, asked, ranks, changes) => {
          const model = 'upstream/model "1"';
          const put = (was: string, becomes: string): string => (changes ? becomes : was);
          const members: (readonly [was: string, becomes: string])[] = [
            [`"m\\u006fdel"${gap}:${gap}"tts-1"`, `"m\\u006fdel"${gap}:${gap}${put('"tts-1"', JSON.stringify(model))}`],
            [`"voice":${gap}"all\\u006fy"`, `"voice":${gap}${put('"all\\u006fy"', '"en-us-1"')}`],
            ['"input":"\\u0041 \\ud83d\\ude00 \u2028"', '"input":"\\u0041 \\ud83d\\ude00 \u2028"'],
            ...(asked === null
              ? []
              : [[`"response_format":"${asked}"`, `"response_format":"${changes ? formatFor(["opus"], asked) : asked}"`] as const]),
            ...others.map(([key, json]) => [`${key}:${json}`, `${key}:${json}`] as const),
          ];
          const ordered = members.map((member, at) => ({ member, rank: ranks[at] ?? 0 })).toSorted((one, other) => one.rank - other.rank);
          const inserted = changes && asked === null ? '"response_format":"opus",' : "";
          const body = (side: 0 | 1): string =>
            `${gap}{${side === 1 ? inserted : ""}${ordered.map(({ member }) => gap + member[side] + gap).join(",")}}${gap}`;
          const made = encoded(body(0), changes ? { model, voices: mapped, speechFormats: ["opus"] } : {});
          expect(sent(made)).toBe(body(1));
        },
      ),
      { numRuns: 400 },
    );
  });
});

describe("the answer", () => {
  test("is read as what was asked for, and given as what the client wants", async () => {
    const { answer } = encoded(plain.replace("}", ',"response_format":"flac"}'), { speechFormats: ["pcm"] });
    if (answer.kind !== "stream") throw new Error("it is not streamed");
    const reader = await answer.reader(headOf("application/octet-stream"), noTools);
    expect(reader).toMatchObject({ type: "audio/flac", shape: "bytes" });
    if (isFailure(reader)) throw new Error(reader.detail);
    expect(await reader.push(new Uint8Array(960))).toMatchObject({ kind: "misconfigured" });
  });

  test.each([
    ['{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}', "quota_exhausted"],
    ['{"error":{"message":"overloaded","type":"overloaded_error"}}', "overloaded"],
    ['{"audio":"abc"}', "bad_response"],
    ["[]", "bad_response"],
    ["null", "bad_response"],
    ["not JSON", "bad_response"],
    ["", "bad_response"],
  ])("that is JSON is a failure: %s", (body, kind) => {
    const { answer } = encoded(plain);
    if (answer.kind !== "stream") throw new Error("it is not streamed");
    expect(answer.instead(Buffer.from(body), headOf("application/json"))).toMatchObject({ kind });
  });

  test("that is a refusal is explained as any other", () => {
    const body = JSON.stringify({ error: { message: "Incorrect API key provided", code: "invalid_api_key" } });
    expect(openaiSpeech.explain({ status: 401, header: () => null, body }).kind).toBe("unauthorized");
  });
});

test.each<[AudioFormat[], AudioFormat, AudioFormat]>([
  [["aac", "opus", "flac", "wav", "pcm"], "mp3", "pcm"],
  [["aac", "opus", "mp3", "wav"], "flac", "wav"],
  [["aac", "opus", "mp3", "flac"], "pcm", "flac"],
  [["aac", "opus", "mp3"], "wav", "mp3"],
  [["aac", "opus"], "mp3", "opus"],
])("of %j, what loses least is asked for to make %s", (spoken, wanted, best) => {
  expect(formatFor(spoken, wanted)).toBe(best);
});
