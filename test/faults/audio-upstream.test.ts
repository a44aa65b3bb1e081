// Needs: quiet. It mostly waits for upstreams that stall.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { makeDecoder } from "../../packages/embedded/src/codecs/decode.ts";
import { recognise } from "../../src/media/audio-sniff.ts";
import { audioFormats, audioTypes } from "../../src/media/audio.ts";
import { formOf, recording } from "../support/audio-call.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { audioOf, stepBytes } from "../support/chaos/spoken.ts";
import { sha256, uploadIn } from "../support/chaos/upload.ts";
import { rawRequest, type RawOptions } from "../support/raw-request.ts";
import type { RawResponse } from "../support/raw-response.ts";
import { cuesIn } from "../support/transcription-world.ts";

setDefaultTimeout(60_000);

let chaos: Chaos;

beforeAll(async () => {
  chaos = await startChaos({ name: "a" });
});

afterAll(() => chaos.close());

function speech(body: Record<string, unknown>): Promise<RawResponse> {
  const headers = { "Content-Type": "application/json" };
  return rawRequest(`${chaos.url}/audio/speech`, { headers, body: JSON.stringify({ model: "tts", input: "hi", voice: "alloy", ...body }) });
}

function transcription(fields: readonly (readonly [string, string])[], options: RawOptions = {}): Promise<RawResponse> {
  const { body, type } = formOf([["model", "whisper"], ...fields], recording());
  return rawRequest(`${chaos.url}/audio/transcriptions`, { ...options, headers: { "Content-Type": type }, body });
}

const lastAttempt = () => chaos.ledger.attempts.at(-1)!;

describe("the upstream of the fault tests", () => {
  test.each(audioFormats)("speaks real audio in %s, which no other attempt and no other upstream has in samples", async (format) => {
    const response = await speech({ response_format: format });
    expect([response.status, response.header("content-type"), response.header("transfer-encoding")]).toEqual([
      200,
      audioTypes[format],
      "chunked",
    ]);
    expect(recognise(response.body, { ended: true, bare: format === "pcm" })).toBe(format);
    const decoder = await makeDecoder(format);
    const samples = decoder.push(response.body).samples.length + decoder.end().samples.length;
    decoder.destroy();
    expect(samples).toBeGreaterThan(24_000);
    expect(sha256(Buffer.concat(lastAttempt().audioSent))).toBe(sha256(response.body));
    const { id } = lastAttempt();
    expect(sha256(audioOf(format, id, null))).toBe(sha256(response.body));
    expect(sha256(audioOf(format, "b1", null))).not.toBe(sha256(response.body));
    if (["mp3", "wav", "pcm"].includes(format)) expect(sha256(audioOf(format, `${id}0`, null))).not.toBe(sha256(response.body));
  });

  test("stops at the kilobyte it is told to", async () => {
    const response = await speech({ model: "fault:fin-chunked-after@7", response_format: "pcm" });
    expect([response.endedCleanly, response.body.length]).toEqual([false, 7 * stepBytes]);
  });

  test.each(["json", "text", "srt", "vtt", "verbose_json"])("transcribes as %s, in words that name their attempt", async (format) => {
    const response = await transcription([["response_format", format]]);
    const { id, upload, tokensSent } = lastAttempt();
    const said = [0, 1, 2, 3, 4].map((index) => `${id}:${index}`).join(" ");
    expect(tokensSent.join("")).toBe(said);
    if (format.endsWith("json")) expect(response.json()).toMatchObject({ text: said });
    else if (format === "text") expect(response.text).toBe(`${said}\n`);
    else expect(cuesIn(response.body, format as "srt" | "vtt").length).toBe(5);
    expect(upload).toEqual({
      fields: [
        ["model", "whisper"],
        ["response_format", format],
      ],
      file: { name: "talk.wav", type: "audio/wav", bytes: 40_000, sha256: sha256(recording()) },
      whole: true,
      oddities: [],
    });
  });

  test("streams a transcript and ends it", async () => {
    const response = await transcription([["stream", "true"]]);
    expect(response.header("content-type")).toStartWith("text/event-stream");
    expect(response.text.match(/transcript\.text\.delta/g)?.length).toBe(5);
    expect(response.text).toEndWith("data: [DONE]\n\n");
  });

  test("answers in the middle of an upload", async () => {
    chaos.script(["fault:upload-status@1000,413"]);
    const response = await transcription([]);
    expect([response.status, lastAttempt().upload?.whole, lastAttempt().model]).toEqual([413, false, "whisper"]);
    expect(lastAttempt().upload!.file!.bytes).toBeLessThan(1_000);
  });

  test("breaks off in the middle of an upload", async () => {
    chaos.script(["fault:upload-rst@1000"]);
    const response = await transcription([]);
    expect([response.status, response.wasReset, lastAttempt().endedBy]).toEqual([0, true, "fault"]);
  });
});

describe("its reader of forms", () => {
  const { body, type } = formOf([["model", "m"]], recording(100));

  test("notices what a lenient one would not", () => {
    const oddities = (bytes: Uint8Array) => uploadIn(type, bytes)!.oddities;
    expect(oddities(body)).toEqual([]);
    expect(oddities(Buffer.concat([Buffer.from("x\r\n"), body]))).not.toEqual([]);
    expect(oddities(Buffer.concat([body, Buffer.from("more")]))).not.toEqual([]);
  });

  test("takes no part of a form for all of it, wherever it is cut", () => {
    for (let length = 0; length < body.length - 4; length += 1) expect(uploadIn(type, body.subarray(0, length))!.whole).toBe(false);
    expect(uploadIn(type, body)!.whole).toBe(true);
    expect(uploadIn("application/json", body)).toBeNull();
  });
});
