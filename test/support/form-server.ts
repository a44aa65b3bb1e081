import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readForm, type Form, type FormLimits } from "../../src/http/forms/form.ts";
import { Connections } from "../../src/net/server/connections.ts";
import { errorResponse } from "../../src/http/errors.ts";
import { ResponseHead, type HttpResponse } from "../../src/net/server/http-response.ts";
import type { IncomingRequest } from "../../src/net/server/incoming-request.ts";
import { failure, isFailure, type Failure } from "../../src/operations/failure.ts";

/** A real server that reads forms and answers with what it understood. */
export interface FormServer {
  readonly url: string;
  /** Where its large files are kept: nothing may ever be seen in it. */
  readonly directory: string;
  /** How many requests it has begun to read. */
  begun(): number;
  /** What came of each request, in order. A form is disposed of by then. */
  readonly outcomes: readonly Outcome[];
  /** Its descriptors that are open on files of the directory. */
  openFiles(): number;
  close(): Promise<void>;
}

export type Outcome = Seen | Failure;

/** What a client is told of its form. */
export interface Seen {
  readonly fields: Form["fields"];
  readonly fileName: string;
  readonly fileType: string | null;
  readonly length: number;
  readonly headLength: number;
  /** Of the file, read back in pieces. */
  readonly hash: string;
  readonly bytes: number;
}

export function openFormServer(limits: Partial<FormLimits> = {}): FormServer {
  const own = limits.directory === undefined ? mkdtempSync(join(tmpdir(), "sluice-form-")) : null;
  const directory = limits.directory ?? own ?? "";
  const outcomes: Outcome[] = [];
  let begun = 0;
  async function answer(request: IncomingRequest): Promise<HttpResponse> {
    begun += 1;
    const head = new ResponseHead("r");
    const form = await readForm(request, { fileBytesMax: 26_214_400, readMs: 30_000, after, ...limits, directory });
    if (isFailure(form)) {
      outcomes.push(form);
      head.closesConnection = form.status === 408;
      return errorResponse(form, head);
    }
    const seen = await see(form);
    outcomes.push(seen);
    head.add("content-type", "application/json");
    return { status: 200, head, body: JSON.stringify(seen) };
  }
  const broken = (detail: string): HttpResponse => errorResponse(failure("internal", detail), new ResponseHead("r"));
  const server = new Connections(
    { host: "127.0.0.1", port: 0, reusePort: false, connectionsMax: 10_000 },
    { handle: answer, parseError: broken, onBug: (error) => broken(String(error)), nowMs: () => performance.now() },
  );
  return {
    url: `${server.url}/v1/audio/transcriptions`,
    directory,
    begun: () => begun,
    outcomes,
    openFiles: () => openFilesIn(directory),
    close: async () => {
      await server.close();
      if (own !== null) rmSync(own, { recursive: true, force: true });
    },
  };
}

async function see(form: Form): Promise<Seen> {
  const { fields, file, bytes } = form;
  const { content } = file;
  const hash = new Bun.CryptoHasher("sha256");
  try {
    for (let from = 0; from < content.length;) {
      const piece = await content.read(from, 300_000);
      hash.update(piece);
      from += piece.length;
      // As in the reader itself: garbage of this size would be most of what is measured.
      (piece.buffer as ArrayBuffer).transfer(0);
    }
  } finally {
    form.dispose();
  }
  const { length, head } = content;
  return { fields, fileName: file.name, fileType: file.type, length, headLength: head.length, hash: hash.digest("hex"), bytes };
}

export function hashOf(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}

/** Descriptors of this process on files of a folder, which may have no name any more. */
export function openFilesIn(directory: string): number {
  return readdirSync("/proc/self/fd").filter((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith(directory);
    } catch {
      return false;
    }
  }).length;
}

export function after(ms: number, then: () => void): () => void {
  const timer = setTimeout(then, ms);
  return () => clearTimeout(timer);
}

/** A part of a form, framed by hand. */
export interface SentPart {
  readonly headers: string;
  readonly content: Uint8Array | string;
}

export function field(name: string, value: Uint8Array | string): SentPart {
  return { headers: `Content-Disposition: form-data; name="${name}"`, content: value };
}

export function file(content: Uint8Array | string, name = "speech.wav", type = "audio/wav"): SentPart {
  return { headers: `Content-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: ${type}`, content };
}

export function framed(parts: readonly SentPart[], boundary: string): Buffer {
  const pieces = parts.flatMap(({ headers, content }) => [`--${boundary}\r\n${headers}\r\n\r\n`, content, "\r\n"]);
  return Buffer.concat([...pieces, `--${boundary}--\r\n`].map((piece) => Buffer.from(piece)));
}
