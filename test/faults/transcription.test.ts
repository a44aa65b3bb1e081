// Needs: quiet. It mostly waits for upstreams that stall in the middle of an upload.
import { afterEach, describe, expect, setDefaultTimeout } from "bun:test";
import {
  accessLine,
  beginUpload,
  formOf,
  noUploadLeft,
  open,
  openTranscription,
  recording,
  transcribe,
  uploadsOf,
  type AudioReply,
} from "../support/audio-call.ts";
import { audioTimeouts, earlyFaults } from "../support/audio-faults.ts";
import { expectTranscript, expectUpload, lastAttempt, transcriptIn } from "../support/audio-outcome.ts";
import type { Attempt } from "../support/chaos/ledger.ts";
import { eventually } from "../support/eventually.ts";
import { expectRefusal, expectToldInBand } from "../support/outcome.ts";
import { refusedUrl } from "../support/refused-port.ts";
import { Stage, type Row } from "../support/stage.ts";
import { slowed, slowedSettingMs } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const mebibyte = 1024 * 1024;
/** The promise is 50 ms; a machine that runs other tests as well may be late itself. */
const closedWithinMs = 250;
const audioLimit = 16 * mebibyte;
// Its rows play many uploads at once; the bound on them is a promise of its own (faults-transcription-uploads.test.ts).
const stage = new Stage({ config: { server: { audio_limit: "16MiB", uploads: 1000 } } });
const options = { sharesFallback: true, channels: { timeouts: audioTimeouts } };
const kinds = [
  { kind: "whole", stream: false },
  { kind: "stream", stream: true },
] as const;
/** In memory, and on the disk. */
const small = recording(40_000);
const large = recording(3 * mebibyte);

afterEach(() => noUploadLeft(stage.gateway));

/** What an upstream was asked for. */
function formatAsked({ upload }: Attempt): string | undefined {
  return upload?.fields.find(([name]) => name === "response_format")?.[1];
}

describe("a healthy transcription", () => {
  stage.rows(
    "hands the file on byte for byte, with its name, its type and every field, wherever the model stands",
    [false, true].flatMap((fileFirst) =>
      [small, large].map((file) => ({ label: `${file.length} bytes, file ${fileFirst ? "first" : "last"}`, file, fileFirst })),
    ),
    async (row, { file, fileFirst }) => {
      const more = [
        ["language", "German"],
        ["temperature", "0.2"],
        ["keywords[]", "one"],
        ["keywords", "two"],
        ["x_unknown", "stays é"],
      ] as const;
      const reply = await transcribe(row, { file, fileFirst, fields: more, format: "verbose_json" });
      expectTranscript(reply, row.a, "verbose_json");
      const attempt = lastAttempt(reply, row.a);
      expectUpload(attempt, file);
      const fields = attempt.upload!.fields;
      expect(fields).toContainEqual(["language", "de"]);
      expect(fields).toContainEqual(["x_unknown", "stays é"]);
      expect(fields.filter(([name]) => name === "keywords[]").map(([, value]) => value)).toEqual(["one", "two"]);
      expect(await accessLine(row, reply)).toMatchObject({ operation: "transcription", status: 200, state: "complete", attempts: 1 });
    },
  );

  stage.row("may be a translation, at its own address", async (row) => {
    const reply = await transcribe(row, { translate: true });
    expectTranscript(reply, row.a);
    expect(lastAttempt(reply, row.a).path).toBe("/v1/audio/translations");
  });

  stage.row("may come in chunks without a length", async (row) => {
    const reply = await transcribe(row, { file: large, chunked: true });
    expectTranscript(reply, row.a);
    expectUpload(lastAttempt(reply, row.a), large);
  });
});

describe("before the first word", () => {
  const wholeFaults = [
    { behaviour: "fault:rst-mid-body", status: 502, code: "upstream_disconnected" },
    { behaviour: "fault:fin-mid-body", status: 502, code: "upstream_disconnected" },
    { behaviour: "fault:length-too-long", status: 502, code: "upstream_disconnected" },
    { behaviour: "fault:fin-close-delimited-after@1", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:invalid-json", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:sse-for-json", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:audio-garbage", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:http09", status: 502, code: "upstream_invalid_response" },
  ];
  const streamFaults = [
    { behaviour: "fault:end-after@0", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:done-only", status: 502, code: "upstream_invalid_response" },
    { behaviour: "fault:sse-error-first", status: 502, code: "upstream_error" },
    { behaviour: "fault:error-event-named@0,authentication_error", status: 502, code: "upstream_auth_failed" },
    { behaviour: "fault:heartbeat-forever@30", status: 504, code: "upstream_timeout" },
    { behaviour: "fault:content-type@text/html+audio-text", status: 502, code: "upstream_invalid_response" },
  ];
  const variants = kinds.flatMap(({ kind, stream }) =>
    [...earlyFaults, ...(stream ? streamFaults : wholeFaults)].map((fault) => ({ ...fault, label: `${fault.behaviour}, ${kind}`, stream })),
  );

  stage.rows(
    "the whole upload goes to another channel, whose words are the only ones the client gets",
    variants,
    async (row, { behaviour, stream }) => {
      row.a.behaviour = behaviour;
      const reply = await transcribe(row, { stream });
      expectTranscript(reply, row.b, "json", stream);
      expect(row.path(reply)).toMatch(/^aa?b$/);
      for (const attempt of row.upstreams.flatMap(({ ledger }) => ledger.ofCall(reply.call))) expectUpload(attempt, small);
    },
    options,
  );

  stage.rows(
    "whoever is left alone is told so in the envelope",
    variants,
    async (row, { behaviour, stream, status, code }) => {
      row.a.behaviour = behaviour;
      const reply = await transcribe(row, { stream, alone: true });
      expectRefusal(reply, status, code);
    },
    options,
  );

  stage.rows(
    "a file on the disk is read again for another channel",
    ["fault:rst-before-headers", "fault:status@503", "fault:html-200", "fault:silent"].map((behaviour) => ({
      label: behaviour,
      behaviour,
    })),
    async (row, { behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await transcribe(row, { file: large });
      expectTranscript(reply, row.b);
      expectUpload(lastAttempt(reply, row.a), large);
      expectUpload(lastAttempt(reply, row.b), large);
      // Sending it a third time is not worth it.
      expect(row.path(reply)).toBe("ab");
    },
    options,
  );

  stage.row(
    "a refused connection costs the client nothing",
    async (row) => {
      const reply = await transcribe(row, { file: large });
      expectTranscript(reply, row.b);
      expectUpload(lastAttempt(reply, row.b), large);
    },
    { url: refusedUrl },
  );

  stage.rows(
    "a client's own mistake is the client's to fix",
    kinds.map(({ kind, stream }) => ({ label: kind, stream })),
    async (row, { stream }) => {
      row.a.behaviour = "fault:status@400";
      const reply = await transcribe(row, { stream });
      expectRefusal(reply, 400, null);
      expect(row.path(reply)).toBe("a");
    },
    options,
  );
});

describe("in the middle of the upload", () => {
  const points = [0, 65_536, mebibyte, 2 * mebibyte + 7];
  const breaks = points.flatMap((bytes) => [
    { behaviour: `fault:upload-rst@${bytes}`, status: 502, code: "upstream_disconnected" },
    { behaviour: `fault:upload-close@${bytes}`, status: 502, code: "upstream_disconnected" },
    { behaviour: `fault:upload-status@${bytes},401`, status: 502, code: "upstream_auth_failed" },
    { behaviour: `fault:upload-status@${bytes},503`, status: 503, code: "upstream_unavailable" },
    { behaviour: `fault:upload-status-rst@${bytes},429`, status: 429, code: "rate_limit_exceeded" },
  ]);
  const stalls = [0, mebibyte].map((bytes) => ({
    behaviour: `fault:upload-stall@${bytes},${slowedSettingMs(3_000)}`,
    status: 504,
    code: "upstream_timeout",
  }));

  stage.rows(
    "whatever an upstream does, another one gets all of it",
    [...breaks, ...stalls].map((fault) => ({ label: fault.behaviour, ...fault })),
    async (row, { behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await transcribe(row, { file: large });
      expectTranscript(reply, row.b);
      expectUpload(lastAttempt(reply, row.b), large);
      // Whoever hears nothing of an upload does not know whose it is, but the upstream is this row's own.
      expect(row.a.ledger.chats.map(({ upload }) => upload?.whole)).toEqual([false]);
    },
    options,
  );

  stage.rows(
    "whatever an upstream does, a client without another is told",
    [...breaks, ...stalls].map((fault) => ({ label: fault.behaviour, ...fault })),
    async (row, { behaviour, status, code }) => {
      row.a.behaviour = behaviour;
      expectRefusal(await transcribe(row, { file: large, alone: true }), status, code);
    },
    options,
  );

  stage.rows(
    "a file that is too large for the upstream is told so",
    [0, 65_536].map((bytes) => ({ label: `${bytes} bytes`, bytes })),
    async (row, { bytes }) => {
      row.a.behaviour = `fault:upload-status@${bytes},413`;
      const reply = await transcribe(row, { file: large, alone: true });
      expect([reply.status, reply.error?.code]).toEqual([413, "request_too_large"]);
      expect(row.a.ledger.chats.length).toBe(1);
    },
    options,
  );
});

describe("after the first word", () => {
  stage.rows(
    "a stream that breaks tells so in-band, after exactly what was said",
    ["rst-after@2", "fin-chunked-after@2", "fin-close-delimited-after@2", "end-after@2", "hang-after@2", "sse-error-after@2"].map(
      (fault) => ({
        label: fault,
        fault,
      }),
    ),
    async (row, { fault }) => {
      row.a.behaviour = `fault:${fault}`;
      const reply = await transcribe(row, { stream: true });
      expectToldInBand(reply, "upstream_stream_interrupted");
      expect(transcriptIn(reply, "json", true)).toBe(lastAttempt(reply, row.a).tokensSent.join(""));
      expect(row.path(reply)).toBe("a");
      expect(await accessLine(row, reply)).toMatchObject({ status: 200, state: "interrupted", attempts: 1 });
    },
    options,
  );

  stage.rows(
    "odd framing changes no word",
    ["crlf", "cr+comments", "no-space+multi-line-data", "byte-by-byte", "one-packet", "bom", "no-done", "gzip", "pace@30"].map((fault) => ({
      label: fault,
      fault,
    })),
    async (row, { fault }) => {
      row.a.behaviour = `fault:${fault}`;
      expectTranscript(await transcribe(row, { stream: true }), row.a, "json", true);
    },
    options,
  );
});

describe("a format", () => {
  const asked = ["json", "text", "srt", "vtt", "verbose_json"] as const;
  const sets = [
    ["json"],
    ["text"],
    ["json", "text"],
    ["srt"],
    ["vtt"],
    ["verbose_json"],
    ["json", "verbose_json"],
    ["diarized_json"],
    ["json", "text", "srt", "vtt", "verbose_json", "diarized_json"],
  ];
  /** What each can be made of. */
  const sources: Readonly<Record<string, readonly string[]>> = {
    json: ["json", "text", "verbose_json", "diarized_json"],
    text: ["json", "text", "verbose_json", "diarized_json"],
    srt: ["srt", "verbose_json", "diarized_json"],
    vtt: ["vtt", "verbose_json", "diarized_json"],
    verbose_json: ["verbose_json", "diarized_json"],
  };
  stage.rows(
    "is made of whatever the channel has, or refused where it has nothing for it",
    sets.flatMap((formats) =>
      asked.map((format) => ({
        label: `${format} from ${formats.join(", ")}`,
        format,
        formats,
        group: { size: 1 as const, channels: { capabilities: { transcription_formats: formats } } },
      })),
    ),
    async (row, { format, formats }) => {
      const reply = await transcribe(row, { format });
      if (!formats.some((each) => sources[format]!.includes(each))) {
        expectRefusal(reply, 400, "unsupported_value");
        expect([reply.error?.param, row.path(reply)]).toEqual(["response_format", ""]);
        return;
      }
      expectTranscript(reply, row.a, format);
      const sent = lastAttempt(reply, row.a).upload!.fields.findLast(([name]) => name === "response_format")?.[1] ?? "json";
      expect(formats).toContain(sent);
      if (formats.includes(format)) expect(sent).toBe(format);
    },
  );

  stage.rows(
    "with times goes to a channel that has them, past one that has none",
    (["srt", "vtt", "verbose_json"] as const).map((format) => ({ label: format, format })),
    async (row, { format }) => {
      const reply = await transcribe(row, { format });
      expectTranscript(reply, row.b, format);
      expect(row.path(reply)).toBe("b");
      expect(row.path(await transcribe(row, { format: "json" }))).toBe("a");
    },
    { channel: { capabilities: { transcription_formats: ["json", "text"] } } },
  );

  stage.rows(
    "with times that an upstream promised and has not comes from another, or is refused: no time is ever invented",
    [true, false].map((alone) => ({ label: alone ? "alone" : "with another", alone })),
    async (row, { alone }) => {
      row.a.behaviour = "fault:no-times";
      const reply = await transcribe(row, { format: "srt", alone });
      if (alone) expectRefusal(reply, 400, "unsupported_value");
      else expectTranscript(reply, row.b, "srt");
    },
    { channel: { capabilities: { transcription_formats: ["json", "verbose_json"] } } },
  );

  stage.rows(
    "that an upstream ignores is made of what it gave instead",
    [
      { label: "JSON for text", format: "text", given: "json" },
      { label: "verbose JSON for subtitles", format: "srt", given: "verbose_json" },
      { label: "verbose JSON for text", format: "text", given: "verbose_json" },
    ],
    async (row, { format, given }) => {
      row.a.behaviour = `fault:transcript-format@${given}`;
      expectTranscript(await transcribe(row, { format }), row.a, format);
    },
  );

  stage.rows(
    "of subtitles that an upstream answers with plain JSON is made of verbose JSON that is asked for then, and from then on at once",
    ["srt", "vtt"].map((format) => ({ label: format, format })),
    async (row, { format }) => {
      row.a.behaviour = "fault:no-subtitles";
      const reply = await transcribe(row, { format });
      expectTranscript(reply, row.a, format);
      expect(row.path(reply)).toBe("aa");
      expect(row.a.ledger.ofCall(reply.call).map(formatAsked)).toEqual([format, "verbose_json"]);
      const later = await transcribe(row, { format });
      expectTranscript(later, row.a, format);
      expect(row.a.ledger.ofCall(later.call).map(formatAsked)).toEqual(["verbose_json"]);
      // Nobody else is cooled down or blamed for it, and other formats are asked for as before.
      expect(row.coolings()).toEqual([]);
      const plain = await transcribe(row, { format: "text" });
      expect(row.a.ledger.ofCall(plain.call).map(formatAsked)).toEqual(["text"]);
    },
  );

  stage.rows(
    "of subtitles that an upstream has no times for at all comes from another channel before it is refused",
    [
      { label: "with another", alone: false, file: small },
      { label: "alone", alone: true, file: small },
      { label: "of a large file", alone: false, file: large },
    ],
    async (row, { alone, file }) => {
      row.a.behaviour = "fault:no-subtitles+no-times";
      const reply = await transcribe(row, { format: "srt", alone, file });
      if (alone) expectRefusal(reply, 400, "unsupported_value");
      else expectTranscript(reply, row.b, "srt");
      expect(row.path(reply)).toBe(alone ? "aa" : "aab");
    },
  );

  stage.rows(
    "is streamed even by an upstream that does not stream",
    [
      { label: "known to", group: { channels: { capabilities: { transcription_stream: false } } }, behaviour: "ok" },
      { label: "found out", group: {}, behaviour: "fault:json-for-sse" },
    ].flatMap((variant) => ["json", "text"].map((format) => ({ ...variant, label: `${variant.label}, ${format}`, format }))),
    async (row, { behaviour, format, group }) => {
      row.a.behaviour = behaviour;
      const reply = await transcribe(row, { stream: true, format });
      expectTranscript(reply, row.a, format, true);
      const asksForStream = lastAttempt(reply, row.a).upload!.fields.some(([name, value]) => name === "stream" && value === "true");
      expect(asksForStream).toBe(group.channels === undefined);
    },
  );
});

describe("a file", () => {
  stage.row(
    "too large for one channel goes to the one that takes it",
    async (row) => {
      const reply = await transcribe(row, { file: large });
      expectTranscript(reply, row.b);
      expect(row.path(reply)).toBe("b");
      expectUpload(lastAttempt(reply, row.b), large);
      expect(row.path(await transcribe(row, { file: small }))).toBe("a");
    },
    { channel: { capabilities: { audio_limit: "1MiB" } } },
  );

  stage.row(
    "too large for every channel is refused, and nobody is asked",
    async (row) => {
      const reply = await transcribe(row, { file: large });
      expect([reply.status, reply.error?.message, row.path(reply)]).toEqual([
        413,
        expect.stringContaining(`Maximum content size limit (${2 * mebibyte}) exceeded`),
        "",
      ]);
    },
    { channel: { capabilities: { audio_limit: "1MiB" } }, channels: { capabilities: { audio_limit: "2MiB" } } },
  );

  stage.rows(
    "above the limit of the gateway is refused, however it comes, and its rest is not kept",
    [
      { label: "with its length", chunked: false, bytes: audioLimit + 5 * mebibyte },
      { label: "in chunks", chunked: true, bytes: audioLimit + 5 * mebibyte },
      { label: "by a single byte", chunked: false, bytes: audioLimit + 1 },
    ],
    async (row, { chunked, bytes }) => {
      const reply = await transcribe(row, { file: recording(bytes), chunked });
      expect([reply.status, reply.error?.type, row.path(reply)]).toEqual([413, "server_error", ""]);
      expect(reply.error?.message).toStartWith(`Maximum content size limit (${audioLimit}) exceeded`);
    },
    { size: 1 },
  );

  stage.row("of exactly that limit is taken", async (row) => {
    const file = recording(audioLimit);
    const reply = await transcribe(row, { file });
    expectTranscript(reply, row.a);
    expectUpload(lastAttempt(reply, row.a), file);
  });

  const mistakes: readonly {
    readonly label: string;
    readonly form: (row: Row) => Form;
    readonly param: string | null;
    readonly status?: number;
  }[] = [
    { label: "no file", form: ({ model }) => formOf([["model", model]], null), param: "file" },
    { label: "an empty file", form: ({ model }) => formOf([["model", model]], new Uint8Array(0)), param: "file" },
    { label: "no model", form: () => formOf([], small), param: "model" },
    { label: "an empty model", form: () => formOf([["model", ""]], small), param: "model" },
    { label: "two files", form: twoFiles, param: "file" },
    {
      label: "a file that is text",
      form: ({ model }) =>
        formOf(
          [
            ["model", model],
            ["file", "words"],
          ],
          null,
        ),
      param: "file",
    },
    {
      label: "an unknown format",
      form: ({ model }) =>
        formOf(
          [
            ["model", model],
            ["response_format", "pdf"],
          ],
          small,
        ),
      param: "response_format",
    },
    {
      label: "an unknown language",
      form: ({ model }) =>
        formOf(
          [
            ["model", model],
            ["language", "klingonese"],
          ],
          small,
        ),
      param: "language",
    },
    {
      label: "a temperature",
      form: ({ model }) =>
        formOf(
          [
            ["model", model],
            ["temperature", "hot"],
          ],
          small,
        ),
      param: "temperature",
    },
    { label: "a form without its end", form: unended, param: null },
    { label: "no boundary", form: ({ model }) => ({ ...formOf([["model", model]], small), type: "multipart/form-data" }), param: null },
    { label: "no form", form: () => ({ body: Buffer.from("{}"), type: "application/json" }), param: null, status: 415 },
  ];
  stage.rows(
    "that is missing, doubled, empty or no audio is refused with what is wrong",
    mistakes,
    async (row, { form, param, status = 400 }) => {
      const { body, type } = form(row);
      const call = await open(row, () => ({ path: "/v1/audio/transcriptions", headers: { "Content-Type": type }, body }));
      const reply = await call.reply;
      expect([reply.status, reply.error?.type, reply.error?.param]).toEqual([status, "invalid_request_error", param]);
      expect(row.a.ledger.chats.length).toBe(0);
    },
    { size: 1 },
  );

  type Form = { readonly body: Uint8Array; readonly type: string };

  function twoFiles({ model }: Row): Form {
    const { body, type } = formOf([["model", model]], small);
    const text = Buffer.from(body).toString("latin1");
    const part = text.slice(text.indexOf("------test-form", 10), text.lastIndexOf("------test-form"));
    return {
      body: Buffer.from(
        text.replace(part, () => part + part),
        "latin1",
      ),
      type,
    };
  }

  function unended({ model }: Row): Form {
    const { body, type } = formOf([["model", model]], small);
    return { body: body.subarray(0, body.length - 30), type };
  }
});

describe("a client that leaves", () => {
  const twelve = recording(12 * mebibyte);

  stage.rows(
    "in its upload, at any megabyte, leaves nothing behind and nobody is asked",
    Array.from({ length: 12 }, (_, mebibytes) => ({ label: `${mebibytes} MiB`, mebibytes })),
    async (row, { mebibytes }) => {
      const id = `upload-left-${mebibytes}`;
      const { connection, body } = await beginUpload(row, id, twelve);
      await connection.send(body.subarray(0, mebibytes * mebibyte + 500));
      if (mebibytes % 2 === 0) connection.close();
      else connection.reset();
      expect(await accessLine(row, { id })).toMatchObject({ status: 499, state: "abandoned", attempts: 0 });
      expect(row.a.ledger.connectionsAccepted).toBe(0);
    },
    { size: 1 },
  );

  stage.rows(
    "with the last byte of its upload is told of once, as any other",
    Array.from({ length: 24 }, (_, at) => ({ label: `client ${at}`, stream: at % 2 === 0, file: at % 3 === 0 ? small : large })),
    async (row, { stream, file }) => {
      const call = await openTranscription(row, { stream, file, abort: "after-request" });
      await call.reply;
      expect(await accessLine(row, call)).toMatchObject({ state: "abandoned" });
    },
    { size: 1 },
  );

  const phases = [
    { label: "while the upstream is silent", behaviour: "fault:silent", stream: false, bytes: 0 },
    { label: "while the upstream is silent, streamed", behaviour: "fault:silent", stream: true, bytes: 0 },
    { label: "after its headers", behaviour: "fault:hang-after-headers", stream: false, bytes: 0 },
    { label: "after its headers, streamed", behaviour: "fault:hang-after-headers", stream: true, bytes: 0 },
    { label: "in the middle of a whole answer", behaviour: "fault:hang-after@2", stream: false, bytes: 0 },
    { label: "in the middle of a stream", behaviour: "fault:hang-after@2", stream: true, bytes: 1 },
  ];
  stage.rows("takes its upstream with it, and nobody else is asked", phases, async (row, { behaviour, stream, bytes }) => {
    row.a.behaviour = behaviour;
    const call = await openTranscription(row, { stream, file: large });
    await row.a.waitFor((ledger) => ledger.ofCall(call.call).length === 1);
    const attempt = row.a.ledger.ofCall(call.call)[0]!;
    if (bytes > 0) await call.untilBody(bytes);
    else await eventually("it waits", () => performance.now() - attempt.at > 60);
    // The upload must be kept until the answer is there.
    if (bytes === 0) expect(uploadsOf(row.gateway.pid).length).toBeGreaterThan(0);
    const abortedAt = performance.now();
    call.abort();
    await eventually("the upstream is closed", () => attempt.endedBy !== null);
    expect(attempt.endedBy).toBe("client_closed");
    expect(attempt.closedAt! - abortedAt).toBeLessThan(slowed(closedWithinMs));
    await expectAbandoned(row, await call.reply, abortedAt);
  });

  stage.rows(
    "while an upstream does not take the upload is not waited for either",
    [0, mebibyte].map((bytes) => ({ label: `${bytes} bytes`, bytes })),
    async (row, { bytes }) => {
      row.a.behaviour = `fault:upload-stall@${bytes},${slowedSettingMs(3_000)}`;
      const call = await openTranscription(row, { file: twelve });
      await row.a.waitFor((ledger) => ledger.chats.length === 1);
      const abortedAt = performance.now();
      call.abort();
      await accessLine(row, call);
      expect(performance.now() - abortedAt).toBeLessThan(slowed(2 * closedWithinMs));
      await eventually("its file is closed", () => uploadsOf(row.gateway.pid).length === 0, 1_000);
      await expectAbandoned(row, await call.reply, abortedAt);
    },
  );

  async function expectAbandoned(row: Row, reply: AudioReply, abortedAt: number): Promise<void> {
    expect(await accessLine(row, reply)).toMatchObject({ state: "abandoned", attempts: 1 });
    expect(row.coolings()).toEqual([]);
    const late = row.upstreams.flatMap(({ ledger }) => ledger.connections.filter(({ acceptedAt }) => acceptedAt > abortedAt));
    expect(late).toEqual([]);
  }
});
