import { readdirSync, readlinkSync } from "node:fs";
import type { AudioFormat } from "../../src/media/audio.ts";
import { readChat, type ChatReply } from "./chat.ts";
import { eventually } from "./eventually.ts";
import type { LogLine } from "./gateway.ts";
import { RawConnection } from "./raw-connection.ts";
import { openRequest, type RawCall, type RawOptions } from "./raw-request.ts";
import { clientKey, promptCanary, type Row } from "./stage.ts";

/** One call for speech or for a transcript, as a client sees it. An error in it is read as that of a chat is. */
export interface AudioCall extends RawCall {
  /** The `x_call` of the body or form, by which the ledger of an upstream knows the attempts of this call. */
  readonly call: string;
  /** The request's own id, so that its access line is found even if no answer ever comes. */
  readonly id: string;
  readonly reply: Promise<AudioReply>;
}

export interface AudioReply extends ChatReply {
  readonly call: string;
  readonly id: string;
  readonly body: Uint8Array;
}

export interface SpeechOptions extends Sending {
  readonly format?: AudioFormat;
  readonly events?: boolean;
  readonly voice?: unknown;
  /** More fields, or others. */
  readonly body?: Readonly<Record<string, unknown>>;
}

export interface TranscriptionOptions extends Sending {
  readonly stream?: boolean;
  readonly format?: string;
  /** More fields, each as often as it stands here. */
  readonly fields?: readonly (readonly [name: string, value: string])[];
  readonly file?: Uint8Array;
  readonly translate?: boolean;
  /** The file before every field. */
  readonly fileFirst?: boolean;
}

interface Sending extends Omit<RawOptions, "body" | "bytes" | "path" | "headers"> {
  readonly model?: string;
  /** Without the upstreams after the first. */
  readonly alone?: boolean;
}

/** Asks for speech from all upstreams of a row in order, or from the first alone. */
export async function speak(row: Row, options: SpeechOptions = {}): Promise<AudioReply> {
  return (await openSpeech(row, options)).reply;
}

export async function transcribe(row: Row, options: TranscriptionOptions = {}): Promise<AudioReply> {
  return (await openTranscription(row, options)).reply;
}

/** The same, returning while the answer is still on its way. */
export function openSpeech(row: Row, options: SpeechOptions = {}): Promise<AudioCall> {
  const { format, events, voice = "alloy", body, model, alone, ...raw } = options;
  const asked = {
    model: modelOf(row, model, alone),
    input: `Say nothing of ${promptCanary}.`,
    voice,
    ...(format === undefined ? {} : { response_format: format }),
    ...(events === undefined ? {} : { stream_format: events ? "sse" : "audio" }),
    ...body,
  };
  return open(row, (call) => ({
    ...raw,
    path: "/v1/audio/speech",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...asked, x_call: call }),
  }));
}

export function openTranscription(row: Row, options: TranscriptionOptions = {}): Promise<AudioCall> {
  const { stream, format, fields = [], file = recording(), translate, fileFirst, model, alone, ...raw } = options;
  return open(row, (call) => {
    const asked = [
      ["model", modelOf(row, model, alone)],
      ["x_call", call],
      ["prompt", `Hear nothing of ${promptCanary}.`],
      ...(format === undefined ? [] : [["response_format", format]]),
      ...(stream === undefined ? [] : [["stream", String(stream)]]),
      ...fields,
    ] as [string, string][];
    const { body, type } = formOf(asked, file, fileFirst);
    const path = `/v1/audio/${translate === true ? "translations" : "transcriptions"}`;
    return { ...raw, path, headers: { "Content-Type": type }, body };
  });
}

/** An upload of which the head was sent; the body is for the caller to send, as far as it likes. */
export async function beginUpload(row: Row, id: string, file: Uint8Array): Promise<{ connection: RawConnection; body: Uint8Array }> {
  const { body, type } = formOf([["model", row.model]], file);
  const headers = {
    Host: "gateway",
    Authorization: `Bearer ${clientKey}`,
    "Content-Type": type,
    "Content-Length": String(body.length),
    "x-request-id": id,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  row.calls += 1;
  const connection = await RawConnection.open(row.gateway.url);
  await connection.send(Buffer.from(`POST /v1/audio/transcriptions HTTP/1.1\r\n${lines.join("")}\r\n`));
  return { connection, body };
}

/** A form as browsers and curl write it. */
export function formOf(
  fields: readonly (readonly [string, string])[],
  file: Uint8Array | null,
  fileFirst = false,
): { readonly body: Uint8Array; readonly type: string } {
  const boundary = "----test-form-7d1b64";
  const parts = fields.map(([name, value]) => Buffer.from(`--${boundary}\r\n${disposition(name)}\r\n\r\n${value}\r\n`));
  const head = `--${boundary}\r\n${disposition("file")}; filename="talk.wav"\r\nContent-Type: audio/wav\r\n\r\n`;
  const filePart = file === null ? [] : [Buffer.from(head), file, Buffer.from("\r\n")];
  const all = fileFirst ? [...filePart, ...parts] : [...parts, ...filePart];
  return { body: Buffer.concat([...all, Buffer.from(`--${boundary}--\r\n`)]), type: `multipart/form-data; boundary=${boundary}` };
}

/** So many bytes that begin as a WAV does, and repeat nowhere in themselves. */
export function recording(bytes = 40_000): Uint8Array {
  const known = recordings.get(bytes);
  if (known !== undefined) return known;
  const words = new Uint32Array(Math.ceil(bytes / 4));
  let state = 0x9e37_79b9 ^ bytes;
  for (let index = 0; index < words.length; index += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[index] = state;
  }
  const made = new Uint8Array(words.buffer, 0, bytes);
  made.set(Buffer.from("RIFF\xff\xff\xff\xffWAVEfmt ", "latin1"));
  recordings.set(bytes, made);
  return made;
}

const recordings = new Map<number, Uint8Array>();

/** Sends whatever is given to a path of the gateway, as a call of the row. */
export async function open(row: Row, requestFor: (call: string) => RawOptions & { readonly path: string }): Promise<AudioCall> {
  const call = `audio-${(calls += 1)}`;
  const { headers, ...request } = requestFor(call);
  row.calls += 1;
  const given = Array.isArray(headers) ? Object.fromEntries(headers as [string, string][]) : (headers as Record<string, string>);
  const opened = await openRequest(`${row.gateway.url}${request.path}`, {
    method: "POST",
    ...request,
    headers: { Authorization: `Bearer ${clientKey}`, "x-request-id": call, ...given },
  });
  const reply = opened.ended.then((response): AudioReply => {
    const read = { ...readChat(response, call, call), call, id: call, body: response.body };
    row.replies.push(read);
    return read;
  });
  return { ...opened, call, id: call, reply };
}

let calls = 0;

/** The access line of a call, even of one that got no answer. */
export function accessLine({ gateway }: Row, { id }: { readonly id: string }): Promise<LogLine> {
  return gateway.waitForLog((line) => line["event"] === "call" && line["id"] === id);
}

/** No upload is left on the disk: its file has no name, but a descriptor of the process would still hold it. */
export async function noUploadLeft({ pid }: { readonly pid: number }): Promise<void> {
  let held: readonly string[] = [];
  await eventually("the files of uploads are closed", () => (held = uploadsOf(pid)).length === 0).catch(() => {
    throw new Error(`files of uploads are still open: ${held.join(", ")}`);
  });
}

export function uploadsOf(pid: number): readonly string[] {
  const targets = readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${descriptor}`)];
    } catch {
      return [];
    }
  });
  return targets.filter((target) => /\/sluice-[^/]* \(deleted\)$/.test(target));
}

function modelOf(row: Row, model: string | undefined, alone = false): string {
  return model ?? (alone ? row.model.replace("all-", "alone-") : row.model);
}

function disposition(name: string): string {
  return `Content-Disposition: form-data; name="${name}"`;
}
