import { expect } from "bun:test";
import { audioTypes, type AudioFormat } from "../../src/media/audio.ts";
import type { AudioReply } from "./audio-call.ts";
import { fieldsOf, textOf } from "./chaos/ask.ts";
import type { Chaos } from "./chaos.ts";
import type { Attempt } from "./chaos/ledger.ts";
import { audioOf } from "./chaos/spoken.ts";
import { sha256 } from "./chaos/upload.ts";
import { sseEvents } from "./sse-events.ts";
import { cuesIn } from "./transcription-world.ts";

/** The client has all of the speech of one upstream's last attempt, byte for byte. */
export function expectSpeech(reply: AudioReply, upstream: Chaos, format: AudioFormat, steps: number | null = null): void {
  expect({ status: reply.status, error: reply.error }).toEqual({ status: 200, error: null });
  expect(reply.response.header("content-type")).toBe(audioTypes[format]);
  expect(reply.response.header("x-content-type-options")).toBe("nosniff");
  expect(reply.response.endedCleanly).toBe(true);
  expectSame(reply.body, audioOf(format, lastAttempt(reply, upstream).id, steps));
}

/** The client has a beginning of what one attempt sent, and sees that it is no more than that. */
export function expectCut(reply: AudioReply, attempt: Attempt): void {
  // Where all of it was over at once, the connection is reset before even the head has left.
  if (reply.status === 0) return expect({ reset: reply.response.wasReset, bytes: reply.body.length }).toEqual({ reset: true, bytes: 0 });
  expect(reply.status).toBe(200);
  // A length would tell it as well, but a stream has none: only the missing end does.
  expect({ clean: reply.response.endedCleanly, length: reply.response.header("content-length") }).toEqual({ clean: false, length: null });
  const sent = Buffer.concat(attempt.audioSent);
  expectSame(reply.body, sent.subarray(0, reply.body.length));
}

/** In words: a difference between buffers is printed byte by byte otherwise. */
export function expectSame(actual: Uint8Array, expected: Uint8Array): void {
  expect({ length: actual.length, sha256: sha256(actual) }).toEqual({ length: expected.length, sha256: sha256(expected) });
}

/** What was said, in whatever format; and that nothing else stands there. */
export function transcriptIn(reply: AudioReply, format: string, stream = false): string {
  if (stream) return streamedTranscript(reply);
  const { text } = reply.response;
  switch (format) {
    case "text":
      return text.replace(/\n$/, "");
    case "srt":
    case "vtt":
      return cuesIn(reply.body, format)
        .map((cue) => cue.text)
        .join(" ");
    default:
      return textOf(fieldsOf(JSON.parse(text))["text"]) ?? "";
  }
}

/** The client has the whole transcript of one upstream's last attempt. */
export function expectTranscript(reply: AudioReply, upstream: Chaos, format = "json", stream = false): void {
  expect({ status: reply.status, error: reply.error }).toEqual({ status: 200, error: null });
  expect(reply.response.endedCleanly).toBe(true);
  expect(reply.response.header("content-type")).toBe(
    stream ? "text/event-stream; charset=utf-8" : format.endsWith("json") ? "application/json" : "text/plain; charset=utf-8",
  );
  expect(transcriptIn(reply, format, stream)).toBe(lastAttempt(reply, upstream).tokensSent.join(""));
  if (stream) expect(reply.done).toBe(true);
}

/** The upload arrived whole, as the client sent it. */
export function expectUpload(attempt: Attempt, file: Uint8Array): void {
  const { upload } = attempt;
  expect({ whole: upload?.whole, oddities: upload?.oddities, file: upload?.file }).toEqual({
    whole: true,
    oddities: [],
    file: { name: "talk.wav", type: "audio/wav", bytes: file.length, sha256: sha256(file) },
  });
}

export function lastAttempt(reply: AudioReply, upstream: Chaos): Attempt {
  const attempt = upstream.ledger.ofCall(reply.call).at(-1);
  if (attempt === undefined) throw new Error(`${upstream.name} was not asked for ${reply.call}`);
  return attempt;
}

/** The audio of a stream of events, and whether it said that it is done. */
export function audioIn(reply: AudioReply): { readonly audio: Uint8Array; readonly done: boolean } {
  const events = sseEvents(reply.body).data.map((data) => fieldsOf(JSON.parse(data)));
  const pieces = events.flatMap((event) => (event["type"] === "speech.audio.delta" ? [Buffer.from(String(event["audio"]), "base64")] : []));
  return { audio: Buffer.concat(pieces), done: events.at(-1)?.["type"] === "speech.audio.done" };
}

/** The deltas together; where the stream came to its end, its last word must say the same. */
function streamedTranscript(reply: AudioReply): string {
  const events = reply.events.filter((data) => data !== "[DONE]").map((data) => fieldsOf(JSON.parse(data)));
  const deltas = events.flatMap((event) => (event["type"] === "transcript.text.delta" ? [textOf(event["delta"]) ?? ""] : [])).join("");
  const done = events.find((event) => event["type"] === "transcript.text.done");
  if (done !== undefined) expect(done["text"]).toBe(deltas);
  return deltas;
}
