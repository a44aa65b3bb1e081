import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import OpenAI, { toFile } from "openai";
import { eventually } from "../support/eventually.ts";
import { lacking, startRealServer, type RealServer } from "../support/real-servers.ts";
import { clientKey, openRealWorld, type Heard, type RealWorld } from "../support/real-servers-world.ts";
import { bytesOf, cuesIn, eventsIn } from "../support/transcription-world.ts";
import { wordErrors } from "../support/word-errors.ts";

// A window of Whisper costs a second or two, and much more on a machine with other work on it.
setDefaultTimeout(90_000);

const recording = readFileSync(new URL("../fixtures/audio/jfk.wav", import.meta.url));
const jfk = new Blob([recording], { type: "audio/wav" });
const said = "And so my fellow Americans ask not what your country can do for you ask what you can do for your country";

/** The same with silence behind it, up to so many bytes; its head tells the length, as a recorder writes it. */
function longRecording(bytes: number): Blob {
  const file = new Uint8Array(bytes);
  file.set(recording);
  const view = new DataView(file.buffer);
  view.setUint32(4, bytes - 8, true);
  const data = recording.indexOf("data");
  view.setUint32(data + 4, bytes - data - 8, true);
  return new Blob([file], { type: "audio/wav" });
}

/** The tiny model gets a word wrong now and then. */
function expectSaid(text: string): void {
  expect({ text, fits: wordErrors(said, text).errors <= 2 }).toEqual({ text, fits: true });
}

const without = lacking("whisper-server");

describe.skipIf(without !== "")(`whisper-server transcribes through the gateway${without}`, () => {
  let server: RealServer;
  let world: RealWorld;
  let client: OpenAI;

  beforeAll(async () => {
    server = await startRealServer("whisper-server");
    world = await openRealWorld([
      // As somebody would write it who knows nothing of the server, and as its manual advises.
      { name: "plain", base_url: server.url, models: { plain: "tiny" } },
      { name: "rich", base_url: server.url, models: { rich: "tiny" }, capabilities: richOnly },
      { name: "lost", base_url: `${server.origin}/elsewhere/v1`, models: { lost: "tiny", found: "tiny" } },
      { name: "known", base_url: server.url, models: { found: "tiny" }, tier: 2 },
    ]);
    client = new OpenAI({ apiKey: clientKey, baseURL: world.baseURL });
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    await server.kill();
  });

  const hear = (model: string, fields: readonly (readonly [string, string])[] = [], file: Blob = jfk): Promise<Heard> =>
    world.transcribe(file, [["model", model], ...fields]);

  test.each(["plain", "rich"])("as JSON (%s)", async (model) => {
    const heard = await hear(model);
    expect([heard.status, heard.type]).toEqual([200, "application/json"]);
    expectSaid((JSON.parse(heard.text) as { text: string }).text);
    expect(await world.line(heard.id)).toMatchObject({ operation: "transcription", upstream_model: "tiny", attempts: 1 });
  });

  test("as text, which the gateway renders", async () => {
    const heard = await hear("rich", [["response_format", "text"]]);
    expect([heard.status, heard.type]).toEqual([200, "text/plain; charset=utf-8"]);
    expectSaid(heard.text);
  });

  // The server calls its plain text text/html, and it is none.
  test("as text, which the server sends", async () => {
    const heard = await hear("plain", [["response_format", "text"]]);
    expect(heard.status).toBe(200);
    expectSaid(heard.text);
  });

  test.each(["srt", "vtt"] as const)("as %s, in its own words or in the gateway's", async (format) => {
    const own = await hear("plain", [["response_format", format]]);
    const rendered = await hear("rich", [["response_format", format]]);
    for (const heard of [own, rendered]) {
      const cues = cuesIn(bytesOf(heard.text), format);
      expect([heard.status, cues[0]?.start, cues.every(({ start, end }) => end > start)]).toEqual([200, 0, true]);
      expectSaid(cues.map(({ text }) => text).join(" "));
    }
  });

  test("as verbose JSON, with its segments and its duration in the log", async () => {
    const heard = await hear("plain", [["response_format", "verbose_json"]]);
    const answer = JSON.parse(heard.text) as { language: string; duration: number; segments: { start: number; end: number }[] };
    expect(answer).toMatchObject({ language: "english", duration: 11 });
    expect(answer.segments.length).toBeGreaterThan(0);
    expect(answer.segments.every(({ start, end }) => start < end)).toBeTrue();
    expect(await world.line(heard.id)).toMatchObject({ audio_seconds: 11 });
  });

  // It puts the words inside its segments, where no client of the OpenAI API looks for them.
  test.each(["plain", "rich"])("with word timestamps where the OpenAI API has them (%s)", async (model) => {
    const heard = await hear(model, [
      ["response_format", "verbose_json"],
      ["timestamp_granularities[]", "word"],
    ]);
    const { words } = JSON.parse(heard.text) as { words?: { word: string; start: number; end: number }[] };
    expect(words?.length).toBeGreaterThan(15);
    expectSaid(words?.map(({ word }) => word).join(" ") ?? "");
  });

  test("in the language that the client names, by code or by name", async () => {
    for (const language of ["de", "German", "de-AT"]) {
      const heard = await hear("plain", [
        ["response_format", "verbose_json"],
        ["language", language],
        ["duration", "3000"],
      ]);
      expect(JSON.parse(heard.text)).toMatchObject({ language: "german" });
    }
  });

  test.each(["plain", "rich"])("as a stream of events, which it cannot send itself (%s)", async (model) => {
    const heard = await hear(model, [["stream", "true"]]);
    expect([heard.status, heard.type]).toEqual([200, "text/event-stream; charset=utf-8"]);
    const [delta, done] = eventsIn(bytesOf(heard.text))
      .slice(0, 2)
      .map((event) => JSON.parse(event) as { type: string; delta?: string; text?: string });
    expect([delta?.type, done?.type]).toEqual(["transcript.text.delta", "transcript.text.done"]);
    expectSaid(done?.text ?? "");
    expect(delta?.delta).toBe(done?.text ?? "");
  });

  test("with fields of its own, which travel on, from a file that fills the limit", async () => {
    const file = longRecording(25 * 1_024 * 1_024);
    // The server's own field: more than thirteen minutes of silence would take it long.
    const heard = await hear(
      "plain",
      [
        ["duration", "11000"],
        ["response_format", "verbose_json"],
      ],
      file,
    );
    expect(heard.status).toBe(200);
    const answer = JSON.parse(heard.text) as { text: string; duration: number };
    expect(answer.duration).toBeGreaterThan(800);
    expectSaid(answer.text);
    const larger = await hear("plain", [], longRecording(25 * 1_024 * 1_024 + 1));
    expect(larger.status).toBe(413);
    expect(larger.text).toContain("26214400");
  });

  test("and its refusal of a file that is none is the client's own", async () => {
    const heard = await hear("plain", [], new Blob([new Uint8Array(30_000).fill(7)], { type: "audio/wav" }));
    expect([heard.status, (JSON.parse(heard.text) as { error: { type: string } }).error.type]).toEqual([400, "invalid_request_error"]);
    expect(await world.line(heard.id)).toMatchObject({ attempts: 1 });
  });

  test("to the official client", async () => {
    const file = await toFile(recording, "jfk.wav");
    expectSaid((await client.audio.transcriptions.create({ model: "plain", file })).text);
    const verbose = await client.audio.transcriptions.create({ model: "rich", file, response_format: "verbose_json", language: "en" });
    expect(verbose.segments?.length).toBeGreaterThan(0);
    expect(
      cuesIn(bytesOf(await client.audio.transcriptions.create({ model: "rich", file, response_format: "vtt" })), "vtt").length,
    ).toBeGreaterThan(0);
  });

  // "File Not Found" is what it says of a path that it does not have.
  test("and a wrong path to it is the gateway's fault, not the client's", async () => {
    const heard = await hear("lost");
    expect([heard.status, (JSON.parse(heard.text) as { error: { code: string } }).error.code]).toEqual([502, "upstream_misconfigured"]);
  });

  test("and a wrong path to it leads to another channel", async () => {
    expect(await hear("found")).toMatchObject({ status: 200, channel: "known" });
  });
});

const richOnly = { transcription_formats: ["verbose_json"], transcription_stream: false };

describe.skipIf(without !== "")(`an upload survives${without}`, () => {
  test("the death of a server, and is heard by a second one", async () => {
    await using one = await startRealServer("whisper-server");
    await using two = await startRealServer("whisper-server");
    await using world = await openRealWorld([
      { name: "one", base_url: one.url, models: ["tiny"] },
      { name: "two", base_url: two.url, models: ["tiny"], tier: 2 },
    ]);
    const heard = world.transcribe(jfk, [["model", "tiny"]]);
    // Between the beginning of its work and the end there is a second or more.
    await eventually("it is at work", () => one.output.includes("processing 'speech.wav'"), 20_000);
    await one.kill();
    const { id, status, channel, text } = await heard;
    expect([status, channel]).toEqual([200, "two"]);
    expectSaid((JSON.parse(text) as { text: string }).text);
    // Its tier is asked once more before the next one, because it failed quickly.
    expect(await world.line(id)).toMatchObject({
      tries: [{ channel: "one", error: "disconnected" }, { channel: "one", error: "unreachable" }, { outcome: "answered" }],
    });
    // The first is known to be away, and the large file goes to the second at once.
    const large = await world.transcribe(longRecording(8 * 1_024 * 1_024), [
      ["model", "tiny"],
      ["duration", "11000"],
    ]);
    expect([large.status, large.channel]).toEqual([200, "two"]);
    expectSaid((JSON.parse(large.text) as { text: string }).text);
  });

  test("the death of the only one, because the model of this machine takes over", async () => {
    await using one = await startRealServer("whisper-server");
    await using world = await openRealWorld([
      { name: "one", base_url: one.url, models: { "embedded/whisper-base": "tiny" } },
      { name: "here", provider: "embedded" },
    ]);
    expect(await world.transcribe(jfk, [["model", "embedded/whisper-base"]])).toMatchObject({ status: 200, channel: "one" });
    one.freeze();
    const heard = world.transcribe(jfk, [
      ["model", "embedded/whisper-base"],
      ["response_format", "srt"],
    ]);
    await eventually("the upload has arrived", () => one.hasUnread());
    await one.kill();
    const { status, channel, text } = await heard;
    expect([status, channel]).toEqual([200, "here"]);
    expectSaid(
      cuesIn(bytesOf(text), "srt")
        .map((cue) => cue.text)
        .join(" "),
    );
  });
});
