// Needs: quiet. It mostly waits for upstreams that stall and for clients that do not read.
import { afterEach, describe, expect, setDefaultTimeout } from "bun:test";
import { makeDecoder } from "../../packages/embedded/src/codecs/decode.ts";
import { recognise } from "../../src/media/audio-sniff.ts";
import { audioFormats, audioTypes, type AudioFormat } from "../../src/media/audio.ts";
import { accessLine, noUploadLeft, openSpeech, speak, type AudioReply } from "../support/audio-call.ts";
import { audioTimeouts, earlyFaults } from "../support/audio-faults.ts";
import { audioIn, expectCut, expectSame, expectSpeech, lastAttempt } from "../support/audio-outcome.ts";
import { audioOf, stepBytes } from "../support/chaos/spoken.ts";
import { eventually } from "../support/eventually.ts";
import { expectRefusal, expectToldInBand } from "../support/outcome.ts";
import { refusedUrl } from "../support/refused-port.ts";
import { joinedSamples } from "../support/signal.ts";
import { Stage, type Row } from "../support/stage.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const writeStallMs = 1_200;
/** The promise is 50 ms; a machine that runs other tests as well may be late itself. */
const closedWithinMs = 250;
/** Many formats are made at once, in one worker. */
const transcodesMs = 15_000;
const stage = new Stage({ config: { server: { write_stall: `${writeStallMs}ms` } } });
const options = { sharesFallback: true, channels: { timeouts: audioTimeouts } };
/** For upstreams that fail in another way than by being slow: many are asked at once, and whoever takes over must not be late. */
const patient = { ...options, channels: { timeouts: { ...audioTimeouts, connect: "10s", first_byte: "20s", first_content: "20s" } } };

afterEach(() => noUploadLeft(stage.gateway));

describe("healthy speech", () => {
  stage.rows(
    "arrives as it was sent, in every format",
    audioFormats.map((format) => ({ label: format, format })),
    async (row, { format }) => {
      const reply = await speak(row, { format });
      expectSpeech(reply, row.a, format);
      expect(row.path(reply)).toBe("a");
      expect(await accessLine(row, reply)).toMatchObject({ operation: "speech", status: 200, state: "complete", attempts: 1 });
    },
  );

  stage.rows(
    "is recognised by its bytes, whatever it is called and however it comes",
    [
      { label: "as plain text", behaviour: "fault:content-type@text/plain", format: "mp3" as const },
      { label: "as HTML", behaviour: "fault:content-type@text/html", format: "flac" as const },
      { label: "by no name", behaviour: "fault:content-type@none", format: "wav" as const },
      { label: "as bytes of anything", behaviour: "fault:content-type@application/octet-stream", format: "aac" as const },
      { label: "by the old name", behaviour: "fault:content-type@audio/opus", format: "opus" as const },
      { label: "with its rate", behaviour: "fault:content-type@audio/pcm;rate=24000;channels=1", format: "pcm" as const },
      { label: "in gzip", behaviour: "fault:gzip", format: "mp3" as const },
      { label: "after interim answers", behaviour: "fault:interim-100+interim-103", format: "opus" as const },
      { label: "until the connection ends", behaviour: "fault:close-delimited", format: "wav" as const },
      { label: "in one packet", behaviour: "fault:one-packet", format: "pcm" as const },
      { label: "slowly", behaviour: "fault:pace@8", format: "mp3" as const },
    ],
    async (row, { behaviour, format }) => {
      row.a.behaviour = behaviour;
      const reply = await speak(row, { format });
      expectSpeech(reply, row.a, format);
      expect(row.path(reply)).toBe("a");
    },
    options,
  );

  stage.row("arrives byte by byte as it arrives at once", async (row) => {
    row.a.behaviour = "fault:byte-by-byte";
    const reply = await speak(row, { format: "pcm", body: { x_tokens: 2 } });
    expectSpeech(reply, row.a, "pcm", 2);
  });
});

describe("until the first frame of audio", () => {
  const audioFaults = [
    { behaviour: "fault:audio-garbage", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:audio-text", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:audio-error", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:audio-empty", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:content-type@application/json", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:content-type@text/event-stream", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:sse-error-first", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:end-after@0", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:http09", status: 502, code: "upstream_invalid_response" },
  ];
  const all = [...earlyFaults, ...audioFaults];

  stage.rows(
    "another channel takes over, and the client hears nothing but that one, whole",
    all.map((fault) => ({ label: fault.behaviour, behaviour: fault.behaviour })),
    async (row, { behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await speak(row, { format: "mp3" });
      expectSpeech(reply, row.b, "mp3");
      expect(row.path(reply)).toMatch(/^aa?b$/);
      expect(await accessLine(row, reply)).toMatchObject({ state: "complete", channel: row.channel("b") });
    },
    options,
  );

  stage.rows(
    "whoever is left alone is told so in the envelope",
    all.map((fault) => ({ label: fault.behaviour, ...fault })),
    async (row, { behaviour, status, code }) => {
      row.a.behaviour = behaviour;
      const reply = await speak(row, { format: "mp3", alone: true });
      expectRefusal(reply, status, code);
      expect(reply.response.text).not.toMatch(/while processing|upstream connect error|sk-\*\*\*\*wxyz/);
    },
    options,
  );

  stage.rows(
    "a client's own mistake is the client's to fix, and nobody else is asked",
    [400, 422].map((status) => ({ label: String(status), status })),
    async (row, { status }) => {
      row.a.behaviour = `fault:status@${status}`;
      const reply = await speak(row);
      expect([reply.status, reply.error?.type]).toEqual([status, "invalid_request_error"]);
      expect(row.path(reply)).toBe("a");
    },
    options,
  );

  stage.row(
    "a refused connection costs the client nothing",
    async (row) => {
      const reply = await speak(row, { format: "opus" });
      expectSpeech(reply, row.b, "opus");
    },
    { url: refusedUrl },
  );

  stage.rows(
    "samples of another rate are never passed on as if they were right",
    ["audio/pcm;rate=16000", "audio/L16; rate=8000", "audio/pcm;channels=2"].map((type) => ({ label: type, type })),
    async (row, { type }) => {
      row.a.behaviour = `fault:content-type@${type}`;
      expectSpeech(await speak(row, { format: "pcm" }), row.b, "pcm");
    },
    options,
  );
});

describe("an upstream that dies", () => {
  const deaths = ["rst-after", "fin-chunked-after"] as const;

  function expectEither(row: Row, reply: AudioReply, format: AudioFormat): "taken over" | "cut" {
    if (row.path(reply).endsWith("b")) {
      expectSpeech(reply, row.b, format);
      return "taken over";
    }
    // Where it broke before anything had left, it may have been asked once more.
    expect(row.path(reply)).toMatch(/^aa?$/);
    expectCut(reply, lastAttempt(reply, row.a));
    return "cut";
  }

  /** Each of the first and of the last, and every third of those between, where one is like another: so that each format dies both ways. */
  const kilobytesTried = Array.from({ length: 65 }, (_, kilobytes) => kilobytes).filter((at) => at < 9 || at % 3 === 0 || at > 61);

  for (const format of ["mp3", "wav"] as const) {
    stage.rows(
      `at any kilobyte of an answer never ends it cleanly (${format})`,
      kilobytesTried.map((kilobytes) => ({ label: `${kilobytes} KiB`, kilobytes, death: deaths[kilobytes % 2]! })),
      async (row, { kilobytes, death }) => {
        row.a.behaviour = `fault:${death}@${kilobytes}`;
        const reply = await speak(row, { format, timeoutMs: 35_000 });
        // The first frame is out within two kilobytes, unless all that follows came with it: then nothing has left yet.
        const outcome = expectEither(row, reply, format);
        if (kilobytes === 0) expect(outcome).toBe("taken over");
        if (outcome === "cut") {
          expect(reply.body.length).toBeLessThanOrEqual(kilobytes * stepBytes);
          expect(await accessLine(row, reply)).toMatchObject({ status: 200, state: "interrupted", attempts: row.path(reply).length });
        }
      },
      patient,
    );
  }

  stage.rows(
    "never ends an answer cleanly, in no format and at no point, even if only the end of it is missing",
    audioFormats.flatMap((format) =>
      ["1", "2", "5", "12", "last"].map((after, at) => ({ label: `${format}, ${after} KiB`, format, after, death: deaths[at % 2]! })),
    ),
    async (row, { format, after, death }) => {
      row.a.behaviour = `fault:${death}@${after}`;
      expectEither(row, await speak(row, { format, timeoutMs: 35_000 }), format);
    },
    patient,
  );

  stage.rows(
    "behind a proper end of the transport is found out where the format tells its own length, or that of its frames",
    [
      { label: "WAV, chunked", format: "wav" as const, behaviour: "fault:end-after@20" },
      { label: "WAV, until the connection ends", format: "wav" as const, behaviour: "fault:fin-close-delimited-after@20" },
      { label: "MP3, chunked", format: "mp3" as const, behaviour: "fault:end-after@20" },
      { label: "MP3, until the connection ends", format: "mp3" as const, behaviour: "fault:fin-close-delimited-after@20" },
      { label: "AAC, until the connection ends", format: "aac" as const, behaviour: "fault:fin-close-delimited-after@10" },
      { label: "Opus, chunked", format: "opus" as const, behaviour: "fault:end-after@10" },
      { label: "Opus, until the connection ends", format: "opus" as const, behaviour: "fault:fin-close-delimited-after@10" },
    ],
    async (row, { format, behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await speak(row, { format, timeoutMs: 35_000 });
      const state = expectEither(row, reply, format) === "cut" ? "interrupted" : "complete";
      expect(await accessLine(row, reply)).toMatchObject({ state });
    },
    patient,
  );

  stage.rows(
    "silently is waited for no longer than allowed",
    (["mp3", "pcm"] as const).map((format) => ({ label: format, format })),
    async (row, { format }) => {
      row.a.behaviour = "fault:hang-after@8";
      const reply = await speak(row, { format });
      expectCut(reply, lastAttempt(reply, row.a));
      expect(reply.body.length).toBe(8 * stepBytes);
    },
    options,
  );
});

describe("speech that is complete at the upstream, as its length says", () => {
  stage.rows(
    "is taken over wherever it breaks off, because nothing of it has left",
    audioFormats.flatMap((format) =>
      // By a reset or an end of the connection, in the middle or where all of the audio came but less than was told.
      ["rst-after@2", "rst-after@12", "length-skew@100+end-after@12", "length-skew@100+rst-after@last", "length-skew@100"].map((fault) => ({
        label: `${format}, ${fault}`,
        format,
        behaviour: `fault:declared+${fault}`,
      })),
    ),
    async (row, { format, behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await speak(row, { format, timeoutMs: 35_000 });
      expectSpeech(reply, row.b, format);
      const line = await accessLine(row, reply);
      expect(line).toMatchObject({ state: "complete", channel: row.channel("b"), bytes_out: reply.body.length });
    },
    patient,
  );

  stage.rows(
    "is taken over where the audio itself breaks off behind a proper end of the transport",
    [
      { label: "WAV", format: "wav" as const, kilobytes: 20 },
      { label: "MP3", format: "mp3" as const, kilobytes: 20 },
      { label: "AAC", format: "aac" as const, kilobytes: 10 },
      { label: "Opus", format: "opus" as const, kilobytes: 10 },
      {
        label: "WAV, made into MP3",
        format: "mp3" as const,
        kilobytes: 20,
        group: { channels: { capabilities: { speech_formats: ["wav"] } } },
      },
    ],
    async (row, { format, kilobytes }) => {
      row.a.behaviour = `fault:audio-cut@${kilobytes}`;
      const reply = await speak(row, { format, timeoutMs: 30_000 });
      expect([reply.status, reply.response.endedCleanly, row.path(reply).at(-1)]).toEqual([200, true, "b"]);
      expect(await accessLine(row, reply)).toMatchObject({ state: "complete", bytes_out: reply.body.length });
    },
    { ...patient, graceMs: transcodesMs },
  );

  stage.row(
    "is taken over for a client of events as well",
    async (row) => {
      row.a.behaviour = "fault:declared+audio-as-bytes+rst-after@9";
      const reply = await speak(row, { format: "wav", events: true, timeoutMs: 35_000 });
      expect([reply.status, reply.error, audioIn(reply).done]).toEqual([200, null, true]);
      expectSame(audioIn(reply).audio, audioOf("wav", lastAttempt(reply, row.b).id, null));
    },
    patient,
  );

  stage.rows(
    "arrives as it was sent",
    audioFormats.map((format) => ({ label: format, format })),
    async (row, { format }) => {
      row.a.behaviour = "fault:declared";
      const reply = await speak(row, { format, timeoutMs: 35_000 });
      expectSpeech(reply, row.a, format);
      expect(row.path(reply)).toBe("a");
    },
    patient,
  );
});

describe("a format that the channel lacks", () => {
  /** Decoded by the real thing: as long as what was sent, and not silent. */
  async function expectAudible(bytes: Uint8Array, format: AudioFormat, seconds: number): Promise<void> {
    expect(recognise(bytes, { ended: true, bare: format === "pcm" })).toBe(format);
    const decoder = await makeDecoder(format);
    const first = decoder.push(bytes);
    const last = decoder.end();
    decoder.destroy();
    const samples = joinedSamples([first.samples, last.samples]);
    const rate = first.sampleRate || last.sampleRate;
    expect(samples.length / rate).toBeGreaterThan(seconds * 0.95 - 0.05);
    expect(samples.length / rate).toBeLessThan(seconds * 1.05 + 0.15);
    expect(samples.some((sample) => Math.abs(sample) > 0.2)).toBe(true);
  }

  const sources = [
    { from: "pcm" as const, seconds: (64 * stepBytes) / 48_000 },
    { from: "wav" as const, seconds: (64 * stepBytes) / 48_000 },
    { from: "mp3" as const, seconds: 5.5 },
  ];
  stage.rows(
    "is made from one that it has, and is valid",
    sources.flatMap(({ from, seconds }) =>
      audioFormats
        .filter((format) => format !== from)
        .map((format) => ({
          label: `${from} to ${format}`,
          from,
          format,
          seconds,
          group: { channel: { timeouts: { first_content: "20s" }, capabilities: { speech_formats: [from] } } },
        })),
    ),
    async (row, { from, format, seconds }) => {
      const reply = await speak(row, { format, timeoutMs: 30_000 });
      expect([reply.status, reply.response.header("content-type"), reply.response.endedCleanly]).toEqual([200, audioTypes[format], true]);
      expect(JSON.parse(Buffer.from(lastAttempt(reply, row.a).body).toString())).toMatchObject({ response_format: from });
      await expectAudible(reply.body, format, seconds);
    },
    { sharesFallback: true, graceMs: transcodesMs },
  );

  stage.rows(
    "is made from whatever comes, even if that is not what the channel was asked for",
    [
      { label: "WAV for MP3", sent: "wav", format: "mp3" as const, seconds: (64 * stepBytes) / 48_000 },
      { label: "PCM for MP3", sent: "pcm", format: "mp3" as const, seconds: (64 * stepBytes) / 48_000 },
      { label: "PCM for Opus", sent: "pcm", format: "opus" as const, seconds: (64 * stepBytes) / 48_000 },
      { label: "MP3 for WAV", sent: "mp3", format: "wav" as const, seconds: 5.5 },
    ],
    async (row, { sent, format, seconds }) => {
      row.a.behaviour = `fault:audio-format@${sent}`;
      const reply = await speak(row, { format, timeoutMs: 30_000 });
      expect(row.path(reply)).toBe("a");
      expect([reply.response.header("content-type"), reply.response.endedCleanly]).toEqual([audioTypes[format], true]);
      await expectAudible(reply.body, format, seconds);
    },
    { graceMs: transcodesMs },
  );

  stage.rows(
    "is cut off with its source, or taken over before it has begun",
    // Each from one other: that any becomes any is proven above, and for the transcoder itself.
    audioFormats.flatMap((format, at) => {
      const from = format === "flac" || (format !== "mp3" && at % 2 === 0) ? ("mp3" as const) : ("flac" as const);
      return [0, 1, 12].map((kilobytes) => ({
        label: `${from} to ${format}, ${kilobytes} KiB`,
        format,
        kilobytes,
        from,
        group: { channels: { timeouts: { first_content: "20s" }, capabilities: { speech_formats: [from] } } },
      }));
    }),
    async (row, { format, kilobytes, from }) => {
      row.a.behaviour = `fault:${deathOf(kilobytes)}@${kilobytes}`;
      const reply = await speak(row, { format, timeoutMs: 30_000 });
      if (row.path(reply).endsWith("b")) {
        expect([reply.status, reply.response.endedCleanly]).toEqual([200, true]);
        await expectAudible(reply.body, format, from === "mp3" ? 5.5 : 2.5);
      } else {
        expect(kilobytes).toBeGreaterThan(0);
        expect([[0, 200].includes(reply.status), reply.response.endedCleanly]).toEqual([true, false]);
        expect(await accessLine(row, reply)).toMatchObject({ state: "interrupted" });
        if (reply.body.length > 4_000) expect(recognise(reply.body, { ended: false, bare: format === "pcm" })).toBe(format);
      }
    },
    { graceMs: transcodesMs },
  );

  function deathOf(kilobytes: number): string {
    return kilobytes % 2 === 0 ? "rst-after" : "fin-chunked-after";
  }
});

describe("speech in events", () => {
  const voicings = [
    { label: "native", behaviour: "ok" },
    { label: "made from bytes", behaviour: "fault:audio-as-bytes" },
  ];

  stage.rows("holds all of the audio, and then says that it is done", voicings, async (row, { behaviour }) => {
    row.a.behaviour = behaviour;
    const reply = await speak(row, { format: "wav", events: true });
    expect([reply.status, reply.error, reply.response.endedCleanly]).toEqual([200, null, true]);
    expect(reply.response.header("content-type")).toBe("text/event-stream; charset=utf-8");
    const { audio, done } = audioIn(reply);
    expectSame(audio, audioOf("wav", lastAttempt(reply, row.a).id, null));
    expect([done, reply.done]).toEqual([true, false]);
  });

  stage.row("becomes bytes for a client that did not ask for events", async (row) => {
    row.a.behaviour = "fault:audio-as-events";
    expectSpeech(await speak(row, { format: "mp3" }), row.a, "mp3");
  });

  stage.rows(
    "is taken over until the first delta",
    ["rst-before-content", "sse-error-first", "sse-error-first@overloaded_error", "end-after@0", "audio-text", "json-for-sse"].map(
      (fault) => ({
        label: fault,
        fault,
      }),
    ),
    async (row, { fault }) => {
      row.a.behaviour = `fault:${fault}`;
      const reply = await speak(row, { format: "wav", events: true });
      expect([reply.status, reply.error, audioIn(reply).done]).toEqual([200, null, true]);
      expectSame(audioIn(reply).audio, audioOf("wav", lastAttempt(reply, row.b).id, null));
    },
    options,
  );

  stage.rows(
    "that breaks after it tells so in-band, and does not say that it is done",
    voicings.flatMap(({ label, behaviour }) =>
      ["rst-after@9", "fin-chunked-after@9", "fin-close-delimited-after@9", "end-after@9", "hang-after@9", "sse-error-after@9"]
        // An error among bytes is no error, but bytes.
        .filter((fault) => behaviour === "ok" || !fault.startsWith("sse"))
        .map((fault) => ({ label: `${label}, ${fault}`, behaviour: behaviour === "ok" ? `fault:${fault}` : `${behaviour}+${fault}` })),
    ),
    async (row, { behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await speak(row, { format: "wav", events: true });
      expectToldInBand(reply, "upstream_stream_interrupted");
      expect(row.path(reply)).toBe("a");
      const { audio, done } = audioIn(reply);
      expect(done).toBe(false);
      const sent = Buffer.concat(lastAttempt(reply, row.a).audioSent);
      expectSame(audio, sent.subarray(0, audio.length));
      expect(audio.length).toBeGreaterThan(0);
    },
    options,
  );
});

describe("a voice", () => {
  const voices = { alloy: "en-first", nova: "en-second" };
  const spoken = (row: Row, reply: AudioReply, which: "a" | "b" = "a") =>
    (JSON.parse(Buffer.from(lastAttempt(reply, row[which]).body).toString()) as { voice: unknown }).voice;

  stage.rows(
    "is put into the channel's words, and the client is told of it",
    [
      { label: "mapped", voice: "nova" as unknown, sent: "en-second" as unknown, reported: "en-second" as string | null },
      { label: "in the channel's own words", voice: "en-first", sent: "en-first", reported: null },
      { label: "an object", voice: { id: "voice_7" }, sent: { id: "voice_7" }, reported: null },
    ],
    async (row, { voice, sent, reported }) => {
      const reply = await speak(row, { voice });
      expectSpeech(reply, row.a, "mp3");
      expect([spoken(row, reply), reply.response.header("x-sluice-voice")]).toEqual([sent, reported]);
    },
    { channels: { voices } },
  );

  stage.row(
    "that no channel knows is refused, and nobody is asked",
    async (row) => {
      const reply = await speak(row, { voice: "unheard" });
      expectRefusal(reply, 400, "invalid_value");
      expect(reply.error?.param).toBe("voice");
      expect(row.path(reply)).toBe("");
    },
    { channels: { voices } },
  );

  stage.row(
    "that only one channel knows goes to that one",
    async (row) => {
      const reply = await speak(row, { voice: "unheard" });
      expectSpeech(reply, row.b, "mp3");
      expect([row.path(reply), spoken(row, reply, "b")]).toEqual(["b", "unheard"]);
    },
    { channel: { voices } },
  );

  stage.row(
    "that is unknown is replaced where the channel says so, and the client is told",
    async (row) => {
      const reply = await speak(row, { voice: "unheard" });
      expectSpeech(reply, row.a, "mp3");
      expect([spoken(row, reply), reply.response.header("x-sluice-voice")]).toEqual(["en-first", "en-first"]);
    },
    { channels: { voices, unknown_voice: "default" } },
  );
});

describe("a text", () => {
  const input = (characters: number) => ({ input: "é".repeat(characters) });

  stage.row("is spoken up to the limit and refused beyond it", async (row) => {
    expectSpeech(await speak(row, { body: input(4_096) }), row.a, "mp3");
    const reply = await speak(row, { body: input(4_097) });
    expectRefusal(reply, 400, "string_above_max_length");
    expect([reply.error?.param, row.path(reply)]).toEqual(["input", ""]);
  });

  stage.row(
    "too long for one channel goes to the one that takes it",
    async (row) => {
      const reply = await speak(row, { body: input(300) });
      expectSpeech(reply, row.b, "mp3");
      expect(row.path(reply)).toBe("b");
      expectSpeech(await speak(row, { body: input(100) }), row.a, "mp3");
    },
    { channel: { capabilities: { speech_limit: 100 } } },
  );

  stage.row(
    "too long for every channel is refused",
    async (row) => {
      const reply = await speak(row, { body: input(101) });
      expectRefusal(reply, 400, "string_above_max_length");
      expect(row.path(reply)).toBe("");
    },
    { channels: { capabilities: { speech_limit: 100 } } },
  );

  stage.rows(
    "request that is none is refused with what is wrong",
    [
      { label: "no input", body: { input: undefined }, param: "input" },
      { label: "empty input", body: { input: "" }, param: "input" },
      { label: "no voice", body: { voice: undefined }, param: "voice" },
      { label: "unknown format", body: { response_format: "midi" }, param: "response_format" },
      { label: "unknown stream format", body: { stream_format: "smoke" }, param: "stream_format" },
      { label: "speed", body: { speed: 9 }, param: "speed" },
    ],
    async (row, { body, param }) => {
      const reply = await speak(row, { body });
      expect([reply.status, reply.error?.type, reply.error?.param]).toEqual([400, "invalid_request_error", param]);
      expect(row.path(reply)).toBe("");
    },
    options,
  );
});

describe("a client that leaves", () => {
  const phases = [
    { label: "while the upstream is silent", behaviour: "fault:silent", format: "mp3" as const, bytes: 0 },
    { label: "after its headers", behaviour: "fault:hang-after-headers", format: "mp3" as const, bytes: 0 },
    { label: "before the first frame", behaviour: "fault:audio-format@flac+hang-after@1", format: "flac" as const, bytes: 0 },
    { label: "between bytes", behaviour: "fault:hang-after@6", format: "pcm" as const, bytes: 1 },
    { label: "in the middle", behaviour: "fault:pace@20", format: "mp3" as const, bytes: 4_000 },
    { label: "in the middle of events", behaviour: "fault:pace@20", format: "wav" as const, bytes: 4_000, events: true },
    {
      label: "while it is transcoded",
      behaviour: "fault:pace@20",
      format: "wav" as const,
      bytes: 4_000,
      group: { channels: { capabilities: { speech_formats: ["mp3"] } } },
    },
  ];
  stage.rows(
    "takes its upstream with it, and nobody else is asked",
    phases.map((phase) => ({ events: false, ...phase })),
    async (row, { behaviour, format, bytes, events }) => {
      row.a.behaviour = behaviour;
      const call = await openSpeech(row, { format, events });
      await row.a.waitFor((ledger) => ledger.ofCall(call.call).length === 1);
      const [attempt] = row.a.ledger.ofCall(call.call);
      if (bytes > 0) await call.untilBody(bytes, 10_000);
      else await eventually("it waits", () => performance.now() - attempt!.at > 60);
      const abortedAt = performance.now();
      call.abort();
      await eventually("the upstream is closed", () => attempt!.endedBy !== null);
      expect(attempt!.endedBy).toBe("client_closed");
      expect(attempt!.closedAt! - abortedAt).toBeLessThan(slowed(closedWithinMs));
      const reply = await call.reply;
      expect(await accessLine(row, call)).toMatchObject({
        state: "abandoned",
        attempts: 1,
      });
      expect(row.path(reply)).toBe("a");
      expect(row.coolings()).toEqual([]);
      const late = row.upstreams.flatMap(({ ledger }) => ledger.connections.filter(({ acceptedAt }) => acceptedAt > abortedAt));
      expect(late).toEqual([]);
    },
  );

  stage.row("during a wait before another attempt is not waited for", async (row) => {
    row.a.behaviour = "fault:rate-limit@retry-after=3";
    const call = await openSpeech(row, { alone: true });
    await row.a.waitFor((ledger) => ledger.ofCall(call.call).length === 1);
    await row.a.ledger.settled();
    call.abort();
    const line = await row.gateway.waitForLog((each) => each["event"] === "call" && each["id"] === call.id, 1_500);
    expect(line).toMatchObject({ attempts: 1 });
    expect(row.path(await call.reply)).toBe("a");
  });
});

describe("a client that does not read", () => {
  stage.row("pauses its upstream, is cut off, and cannot take the cut for the end", async (row) => {
    row.a.behaviour = "fault:flood";
    const call = await openSpeech(row, { format: "pcm", timeoutMs: 20_000 });
    await call.untilHead();
    call.stopReading();
    const [attempt] = row.a.ledger.ofCall(call.call);
    await eventually("the upstream is closed", () => attempt!.endedBy === "client_closed", 6 * writeStallMs);
    expect(attempt!.bytesSent).toBeLessThan(32 * 1024 * 1024);
    expect(await accessLine(row, call)).toMatchObject({
      status: 200,
      state: "abandoned",
      detail: expect.stringContaining("took no bytes"),
    });
    call.resumeReading();
    expect((await call.reply).response.endedCleanly).toBe(false);
  });

  stage.row("fast is not cut off as long as it reads at all", async (row) => {
    row.a.behaviour = `fault:flood@${12 * 1024 * 1024}`;
    const startedAt = performance.now();
    const reply = await speak(row, { format: "pcm", readBytesPerSecond: 6 * 1024 * 1024, timeoutMs: 20_000 });
    expect(performance.now() - startedAt).toBeGreaterThan(writeStallMs);
    expect([reply.status, reply.response.endedCleanly]).toEqual([200, true]);
    expect(reply.body.length).toBeGreaterThan(11 * 1024 * 1024);
  });
});
