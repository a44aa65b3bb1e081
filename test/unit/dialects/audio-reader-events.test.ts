import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ReaderTools } from "../../../src/dialects/dialect.ts";
import { audioReader } from "../../../src/dialects/readers/audio-reader.ts";
import type { AudioFormat } from "../../../src/media/audio.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { bytewise } from "../../support/cuts.ts";
import { FakeTranscoder, headOf, heard, noTools, play, sizedWav, tone, toolsOf, type Played } from "../../support/speech-world.ts";

// Sweeps over every byte; no clock is judged here.
setDefaultTimeout(120_000);

let mp3: Uint8Array;
let wav: Uint8Array;

beforeAll(async () => {
  mp3 = await tone("mp3");
  wav = sizedWav((await tone("pcm")).subarray(0, 1200));
});

interface Options {
  readonly asked?: AudioFormat;
  readonly wanted?: AudioFormat;
  readonly events?: boolean;
  readonly tools?: ReaderTools;
}

function read(
  chunks: readonly Uint8Array[],
  { asked = "mp3", wanted = asked, events = true, tools = noTools }: Options = {},
): Promise<Played> {
  return play(audioReader({ asked, wanted, events, characters: 7 }, headOf("text/event-stream"), tools), chunks);
}

function delta(audio: Uint8Array): string {
  return `data: {"type": "speech.audio.delta", "audio": "${Buffer.from(audio).toString("base64")}", "extra": 1}\n\n`;
}

const done = 'data: {"type":"speech.audio.done","usage":{"input_tokens":14,"output_tokens":101,"total_tokens":115}}\n\n';

/** The audio in events of so many bytes. */
function deltas(audio: Uint8Array, size = 100): string {
  return Array.from({ length: Math.ceil(audio.length / size) }, (_, at) => delta(audio.subarray(at * size, at * size + size))).join("");
}

describe("events of audio", () => {
  test("reach a client that wants them as they are, with what the upstream counted", async () => {
    const body = deltas(mp3) + done;
    const { sent, failure, emissions } = await read([Buffer.from(body)]);
    expect(failure).toBeNull();
    expect(sent.toString()).toBe(body);
    expect(emissions.at(-2)).toMatchObject({
      kind: "usage",
      frame: null,
      usage: { promptTokens: 14, completionTokens: 101, characters: 7 },
    });
    expect(emissions.at(-1)).toMatchObject({ kind: "end", finish: "stop" });
  });

  test("are the same when they are cut in two anywhere, or come byte by byte", async () => {
    const body = Buffer.from(deltas(wav, 300) + done);
    for (let at = 0; at <= body.length; at++) {
      const { failure, sent } = await read([body.subarray(0, at), body.subarray(at)], { asked: "wav" });
      if (failure !== null || !sent.equals(body)) throw new Error(`cut at byte ${at} it is not the same: ${failure?.detail}`);
    }
    expect((await read(bytewise(body), { asked: "wav" })).sent.equals(body)).toBe(true);
  });

  test.each([true, false])("that end at any byte before the end event are a failure, for a client of events: %p", async (events) => {
    const body = Buffer.from(deltas(wav, 300) + done);
    for (let length = 0; length < body.length - 2; length++) {
      const played = await read([body.subarray(0, length)], { asked: "wav", events });
      const isEnded = played.emissions.some((emission) => emission.kind === "end");
      if (played.failure?.kind !== "bad_response" || isEnded)
        throw new Error(`ended at byte ${length} it is called ${played.failure?.kind}`);
    }
    expect((await read([body.subarray(0, -2)], { asked: "wav", events })).failure).toBeNull();
  });

  test("become bytes for a client that wants bytes", async () => {
    const { sent, failure, emissions } = await read([Buffer.from(deltas(mp3) + done)], { events: false });
    expect(failure).toBeNull();
    expect(sent.equals(mp3)).toBe(true);
    expect(emissions.at(-1)).toMatchObject({ kind: "end", frame: new Uint8Array(0) });
    expect(emissions.at(-2)).toMatchObject({ usage: { completionTokens: 101, characters: 7 } });
  });

  test("go through the codecs where the client wants another format, as events or as bytes", async () => {
    for (const events of [true, false]) {
      const pairs: string[] = [];
      const tools = toolsOf(new FakeTranscoder(), pairs);
      const { sent, failure } = await read(bytewise(Buffer.from(deltas(mp3) + done)), { wanted: "wav", events, tools });
      expect(failure).toBeNull();
      expect(pairs).toEqual(["mp3 to wav"]);
      const audio = events ? heard(sent).audio : sent;
      expect(audio.subarray(1, -1).equals(Buffer.from(mp3.map((byte) => byte ^ 0xff)))).toBe(true);
      if (events) expect(heard(sent).done).toEqual([{ input_tokens: 14, output_tokens: 101, total_tokens: 115 }]);
    }
  });

  test("that hold another format than they should are transcoded and not passed on", async () => {
    const { sent, failure } = await read([Buffer.from(deltas(wav) + done)], { asked: "mp3", tools: toolsOf(new FakeTranscoder()) });
    expect(failure).toBeNull();
    expect(heard(sent).audio.toString("latin1")).toMatch(/^<[^]*>$/);
  });

  test("with fields, comments and heartbeats around them leave as plain frames", async () => {
    const odd = deltas(mp3).replaceAll("data: ", ": ping\r\nid: 3\r\nevent: speech.audio.delta\r\ndata:").replaceAll("\n\n", "\r\n\r\n");
    const { sent, failure } = await read([Buffer.from(odd + done)]);
    expect(failure).toBeNull();
    expect(sent.toString()).toBe(deltas(mp3) + done);
  });

  test("that are named by their event field only are given their names", async () => {
    const audio = (part: Uint8Array) => `event: speech.audio.delta\ndata: {"audio":"${Buffer.from(part).toString("base64")}"}\n\n`;
    const body = `${audio(mp3.subarray(0, 600))}${audio(mp3.subarray(600))}event: speech.audio.done\ndata: {"usage":{"input_tokens":1,"output_tokens":2}}\n\n`;
    const { sent, failure } = await read([Buffer.from(body)]);
    expect(failure).toBeNull();
    expect(heard(sent).audio.equals(mp3)).toBe(true);
    expect(heard(sent).done).toEqual([{ input_tokens: 1, output_tokens: 2, total_tokens: 3 }]);
  });

  test("of kinds nobody knows travel on to a client of events, and end nothing", async () => {
    const other = 'data: {"type":"speech.audio.mark","at":1}\n\n';
    const body = other + deltas(mp3) + other + done;
    expect((await read([Buffer.from(body)])).sent.toString()).toBe(body);
    expect((await read([Buffer.from(body)], { events: false })).sent.equals(mp3)).toBe(true);
  });

  test("are over after the end event, or after the end mark of a chat", async () => {
    const body = deltas(mp3) + done;
    expect((await read([Buffer.from(body), Buffer.from("data: [DONE]\n\n")])).sent.toString()).toBe(body);
    expect((await read([Buffer.from(`${body}data: [DONE]\n\n`)])).sent.toString()).toBe(body);
    const { sent, failure } = await read([Buffer.from(`${deltas(mp3)}data: [DONE]\n\n`)]);
    expect(failure).toBeNull();
    expect(sent.toString()).not.toContain("[DONE]");
    expect(heard(sent).done).toHaveLength(1);
  });

  test("are finished with the end event, and whatever comes behind it says nothing", async () => {
    const reader = audioReader({ asked: "mp3", wanted: "mp3", events: true, characters: 1 }, headOf("text/event-stream"), noTools);
    if (isFailure(reader)) throw new Error(reader.detail);
    await reader.push(Buffer.from(deltas(mp3)));
    expect(reader.finished).toBe(false);
    await reader.push(Buffer.from(done));
    expect(reader.finished).toBe(true);
    expect(await reader.push(Buffer.from(deltas(mp3)))).toEqual([]);
    expect(await reader.close()).toEqual([]);
  });

  test("that announce a longer WAV than they bring are a failure", async () => {
    const { failure } = await read([Buffer.from(deltas(wav.subarray(0, 800)) + done)], { asked: "wav" });
    expect(failure?.kind).toBe("bad_response");
  });

  test("that end inside of a frame are a failure, whatever the end event says", async () => {
    const { failure, emissions } = await read([Buffer.from(deltas(mp3.subarray(0, -1)) + done)]);
    expect(failure?.kind).toBe("bad_response");
    expect(emissions.some(({ kind }) => kind === "end")).toBe(false);
  });

  test("that are no JSON are skipped, and those whose audio cannot be read are a failure", async () => {
    const skipped = await read([Buffer.from(`${deltas(mp3)}data: ping\n\n${done}`)]);
    expect(skipped.failure).toBeNull();
    expect(skipped.emissions.some(({ kind }) => kind === "skipped")).toBe(true);
    for (const bad of [
      '{"type":"speech.audio.delta"}',
      '{"type":"speech.audio.delta","audio":"%%"}',
      '{"type":"speech.audio.delta","audio":7}',
    ]) {
      const played = await read([Buffer.from(`${deltas(mp3)}data: ${bad}\n\n${done}`)]);
      expect(played.failure?.kind).toBe("bad_response");
      expect(played.sent.toString()).toBe(deltas(mp3));
      expect((await read([Buffer.from(`data: ${bad}\n\n`)])).failure?.kind).toBe("bad_response");
    }
  });

  test("with an error among them are judged by it, before any audio and after some", async () => {
    const error = 'data: {"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}\n\n';
    expect((await read([Buffer.from(error)])).failure?.kind).toBe("rate_limited");
    expect((await read([Buffer.from(delta(mp3.subarray(0, 20)) + error)])).failure?.kind).toBe("rate_limited");
    const late = await read([Buffer.from(deltas(mp3) + error)]);
    expect(late.failure?.kind).toBe("rate_limited");
    expect(late.sent.toString()).toBe(deltas(mp3));
    const typed = 'data: {"type":"error","code":"server_error","message":"no"}\n\n';
    expect((await read([Buffer.from(typed)])).failure?.blame).toBe("channel");
  });

  test("that hold no audio, or none that is known, can be asked for elsewhere", async () => {
    expect((await read([Buffer.from(done)])).failure?.kind).toBe("bad_response");
    expect((await read([Buffer.from(deltas(Buffer.from("<html>no</html>".repeat(9))) + done)])).failure?.kind).toBe("bad_response");
    expect((await read([mp3])).failure?.kind).toBe("bad_response");
    expect((await read([Buffer.from('{"error":{}}')])).failure?.kind).toBe("bad_response");
  });

  test("that say nothing for too long are given up", async () => {
    const idle = Buffer.from(`data: {"type":"x","pad":"${"x".repeat(8000)}"}\n\n`);
    const reader = audioReader({ asked: "mp3", wanted: "mp3", events: true, characters: 1 }, headOf("text/event-stream"), noTools);
    if (isFailure(reader)) throw new Error(reader.detail);
    for (let count = 0; count < 100; count++) {
      const emissions = await reader.push(idle);
      if (isFailure(emissions)) return expect(emissions.kind).toBe("bad_response");
    }
    throw new Error("it was held for ever");
  });
});
