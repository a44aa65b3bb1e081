import type { Socket } from "bun";
import { type Behaviour, models, recitalFrames, tokenMark, tokensPerBurst, tokensPerSecond, transcriptionPath } from "./ask.ts";
import { mp3FrameBytes, mp3Frames, mp3FrameSamples, pcmOf, recordingRate, voice } from "./recording.ts";

/**
 * The upstream behind every target, as a process of its own. It answers from prepared bytes on raw sockets, so that it is never the
 * slowest part. It listens on as many ports as its first argument says: to a gateway they are separate hosts.
 */
export interface Counters {
  readonly calls: number;
  readonly streamsOpen: number;
  /** Of the bodies of uploads, since the start. */
  readonly uploadedBytes: number;
  /** Calls of the last minute by the tenth of a second (of the wall clock) in which they arrived. */
  readonly callsByTenth: Readonly<Record<number, number>>;
}

const completion = JSON.stringify({
  id: "chatcmpl-bench0000000000000000000",
  object: "chat.completion",
  created: 1_700_000_000,
  model: models.json,
  choices: [
    {
      index: 0,
      message: {
        role: "assistant",
        content:
          "Start with what the slow requests have in common: the same upstream, the same key, the same size. If nothing stands out, look at the waits: a queue, a pool without free connections, a retry that slept.",
        refusal: null,
        annotations: [],
      },
      logprobs: null,
      finish_reason: "stop",
    },
  ],
  usage: {
    prompt_tokens: 82,
    completion_tokens: 46,
    total_tokens: 128,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  },
  service_tier: "default",
});

const plainAnswer = whole("200 OK", completion);
const refusal = whole(
  "503 Service Unavailable",
  JSON.stringify({ error: { message: "The server is overloaded.", type: "server_error", param: null, code: null } }),
);
const modelList = whole(
  "200 OK",
  JSON.stringify({ object: "list", data: Object.values(models).map((id) => ({ id, object: "model", created: 0, owned_by: "bench" })) }),
);

const streamHead = Buffer.from(
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n",
);
const role = frame({ choices: [choice({ role: "assistant", content: "" }, null)] });
const token = frame({ choices: [choice({ content: ` token${tokenMark}` }, null)] });
const stop = frame({ choices: [choice({}, "stop")] });
const usage = frame({ choices: [], usage: { prompt_tokens: 82, completion_tokens: 100, total_tokens: 182 } });
const done = Buffer.concat([chunk("data: [DONE]\n\n"), Buffer.from("0\r\n\r\n")]);

const begin = Buffer.concat([streamHead, role, token]);
const tokens = [token];
const end = Buffer.concat([stop, done]);
const endWithUsage = Buffer.concat([stop, usage, done]);
const burst = Buffer.concat([streamHead, role, ...repeat(token, tokensPerBurst), end]);
const burstWithUsage = Buffer.concat([streamHead, role, ...repeat(token, tokensPerBurst), endWithUsage]);
const floodBlock = Buffer.concat(repeat(token, 256));

/** Speech leaves about twice as fast as it is played, as it does where somebody speaks into the network. */
const framesPerPiece = 4;
const speechPieces = 10;
const mp3Pieces = pieces(mp3Frames(framesPerPiece * speechPieces), framesPerPiece * mp3FrameBytes);
const pcmPieceSamples = framesPerPiece * mp3FrameSamples;
const pcmPieces = pieces(pcmOf(voice((speechPieces * pcmPieceSamples) / recordingRate)), pcmPieceSamples * 2);
const speechEnd = Buffer.from("0\r\n\r\n");
const recital = Buffer.concat([speechHead("audio/mpeg"), ...pieces(mp3Frames(recitalFrames), 8192), speechEnd]);
const transcript = whole("200 OK", JSON.stringify({ text: "Start with what the slow requests have in common." }));

/** One slot per millisecond between two tokens of a stream: a stream keeps the phase in which it arrived. */
const slots = Array.from({ length: 1000 / tokensPerSecond }, () => new Set<Connection>());

let calls = 0;
let streamsOpen = 0;
let uploadedBytes = 0;
const callsByTenth = new Map<number, number>();

interface Stream {
  /** Null where nothing is sent by the clock. */
  readonly slot: Set<Connection> | null;
  /** Sent one by one, over and over. */
  readonly pieces: readonly Buffer[];
  readonly count: number;
  sent: number;
  readonly end: Buffer;
  readonly flooding: boolean;
}

const endless = { slot: null, pieces: tokens, count: Number.POSITIVE_INFINITY, sent: 0, end } as const;

class Connection {
  private received: Buffer | null = null;
  private unsent: Buffer | null = null;
  /** What of an upload is still to come. */
  private unswallowedBytes = 0;
  private stream: Stream | null = null;

  constructor(private readonly socket: Socket<Connection | null>) {}

  receive(bytes: Buffer): void {
    if (this.unswallowedBytes > 0) return this.swallow(bytes.length);
    const all = this.received === null ? bytes : Buffer.concat([this.received, bytes]);
    const bodyStart = all.indexOf("\r\n\r\n") + 4;
    if (bodyStart >= 4 && all.subarray(0, uploadStart.length).equals(uploadStart)) {
      this.received = null;
      this.count();
      this.unswallowedBytes = endOfBody(all, bodyStart) - bodyStart;
      // An upload is answered when its last byte has come, so its length must be known from the start.
      if (this.unswallowedBytes <= 0) throw new Error("an upload does not say how long it is");
      return this.swallow(all.length - bodyStart);
    }
    const bodyEnd = bodyStart < 4 ? -1 : endOfBody(all, bodyStart);
    if (bodyEnd < 0 || bodyEnd > all.length) {
      this.received = all;
      return;
    }
    this.received = null;
    this.answer(all, bodyStart);
  }

  /** Nothing of a recording is looked at or kept. */
  private swallow(length: number): void {
    uploadedBytes += length;
    this.unswallowedBytes -= length;
    if (this.unswallowedBytes === 0) this.send(transcript);
    if (this.unswallowedBytes < 0) throw new Error("more came than an upload said it would have");
  }

  private count(): void {
    calls += 1;
    const tenth = Math.floor(Date.now() / 100);
    callsByTenth.set(tenth, (callsByTenth.get(tenth) ?? 0) + 1);
  }

  private answer(request: Buffer, bodyStart: number): void {
    if (request[0] === get) {
      this.send(request.toString("latin1", 0, 14) === "GET /counters " ? counters() : modelList);
      return;
    }
    this.count();
    const wantsUsage = request.indexOf('"include_usage":true', bodyStart) >= 0;
    switch (behaviourOf(request, bodyStart)) {
      case "json":
        return this.send(plainAnswer);
      case "refused":
        return this.send(refusal);
      case "burst":
        return this.send(wantsUsage ? burstWithUsage : burst);
      case "paced": {
        const count = maxTokens(request, bodyStart) - 1;
        return this.open(begin, {
          slot: nextSlot(),
          pieces: tokens,
          count,
          sent: 0,
          end: wantsUsage ? endWithUsage : end,
          flooding: false,
        });
      }
      case "idle":
        return this.open(begin, { ...endless, flooding: false });
      case "flood":
        this.open(begin, { ...endless, flooding: true });
        return this.flood();
      case "spoken":
        return this.speak("audio/mpeg", mp3Pieces);
      case "sampled":
        return this.speak("audio/pcm", pcmPieces);
      case "recited":
        return this.send(recital);
      case "uploaded":
        throw new Error(`an upload goes to ${transcriptionPath}`);
    }
  }

  private speak(type: string, audio: readonly Buffer[]): void {
    const [first, ...pieces] = audio;
    if (first === undefined) throw new Error("speech has at least one piece");
    this.open(Buffer.concat([speechHead(type), first]), {
      slot: nextSlot(),
      pieces,
      count: pieces.length,
      sent: 0,
      end: speechEnd,
      flooding: false,
    });
  }

  private open(first: Buffer, stream: Stream): void {
    this.stream = stream;
    streamsOpen += 1;
    stream.slot?.add(this);
    this.send(first);
  }

  tick(): void {
    const { stream } = this;
    if (stream === null || this.unsent !== null) return;
    const piece = stream.pieces[stream.sent % stream.pieces.length];
    if (stream.sent < stream.count && piece !== undefined) {
      stream.sent += 1;
      this.send(piece);
      return;
    }
    this.close();
    this.send(stream.end);
  }

  private flood(): void {
    if (this.stream?.flooding !== true) return;
    // A reader that keeps up would never let the loop end: give the other connections their turn.
    for (let block = 0; block < 4 && this.unsent === null; block += 1) this.send(floodBlock);
    if (this.unsent === null) setImmediate(() => this.flood());
  }

  drain(): void {
    const { unsent } = this;
    if (unsent === null) return;
    this.unsent = null;
    this.send(unsent);
    if (this.unsent === null) this.flood();
  }

  close(): void {
    if (this.stream === null) return;
    this.stream.slot?.delete(this);
    this.stream = null;
    streamsOpen -= 1;
  }

  private send(bytes: Buffer): void {
    if (this.unsent !== null) throw new Error("a connection writes only when its last write has gone out");
    const sent = this.socket.write(bytes);
    if (sent >= 0 && sent < bytes.length) this.unsent = bytes.subarray(sent);
  }
}

if (import.meta.main) {
  const ports = Array.from({ length: Number(process.argv[2] ?? 1) }, () => listen());
  process.stdin.on("end", () => process.exit(0)).resume();
  console.log(JSON.stringify({ event: "listening", ports }));
}

function listen(): number {
  const server = Bun.listen<Connection | null>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open: (socket) => {
        socket.data = new Connection(socket);
      },
      data: (socket, bytes) => socket.data?.receive(bytes),
      drain: (socket) => socket.data?.drain(),
      close: (socket) => socket.data?.close(),
      error: (socket) => socket.data?.close(),
    },
  });
  return server.port;
}

function nextSlot(): Set<Connection> | null {
  return slots[pace() % slots.length] ?? null;
}

let pacer: ReturnType<typeof setInterval> | null = null;
let lastTick = 0;

/** Keeps the clock running while there are streams to pace, and returns its last tick: a stream that joins it waits a whole turn. */
function pace(): number {
  if (pacer === null) {
    lastTick = Math.floor(performance.now());
    pacer = setInterval(() => {
      for (const now = Math.floor(performance.now()); lastTick < now;) {
        lastTick += 1;
        for (const connection of slots[lastTick % slots.length] ?? []) connection.tick();
      }
      if (pacer === null || slots.some((slot) => slot.size > 0)) return;
      clearInterval(pacer);
      pacer = null;
    }, 1);
  }
  return lastTick;
}

function counters(): Buffer {
  const oldest = Math.floor(Date.now() / 100) - 600;
  for (const tenth of callsByTenth.keys()) if (tenth < oldest) callsByTenth.delete(tenth);
  const now: Counters = { calls, streamsOpen, uploadedBytes, callsByTenth: Object.fromEntries(callsByTenth) };
  return whole("200 OK", JSON.stringify(now));
}

const get = "G".charCodeAt(0);
const uploadStart = Buffer.from(`POST ${transcriptionPath} `);
const behaviours = new Map(Object.entries(models).map(([behaviour, model]) => [model, behaviour as Behaviour]));

function behaviourOf(request: Buffer, bodyStart: number): Behaviour {
  // Some write a blank after the colon.
  const start = request.indexOf('"', request.indexOf('"model":', bodyStart) + '"model":'.length) + 1;
  const model = request.toString("latin1", start, request.indexOf('"', start));
  const behaviour = behaviours.get(model as (typeof models)[Behaviour]);
  if (behaviour === undefined) throw new Error(`no behaviour goes by the name ${JSON.stringify(model)}`);
  return behaviour;
}

function maxTokens(request: Buffer, bodyStart: number): number {
  const start = request.indexOf('"max_tokens":', bodyStart);
  return start < 0 ? 4096 : Number.parseInt(request.toString("latin1", start + '"max_tokens":'.length, start + 32), 10);
}

function endOfBody(request: Buffer, bodyStart: number): number {
  const head = request.toString("latin1", 0, bodyStart);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return bodyStart + Number(length);
  if (!/\r\ntransfer-encoding: *chunked/i.test(head)) return bodyStart;
  const last = request.indexOf("\r\n0\r\n\r\n", bodyStart - 2);
  return last < 0 ? -1 : last + 7;
}

function whole(status: string, body: string): Buffer {
  return Buffer.from(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nx-request-id: req_bench\r\n\r\n${body}`,
  );
}

function frame(fields: object): Buffer {
  const head = { id: "chatcmpl-bench0000000000000000000", object: "chat.completion.chunk", created: 1_700_000_000, model: models.paced };
  return chunk(`data: ${JSON.stringify({ ...head, system_fingerprint: "fp_bench", ...fields })}\n\n`);
}

function choice(delta: object, finishReason: string | null): object {
  return { index: 0, delta, logprobs: null, finish_reason: finishReason };
}

function chunk(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
}

/** A recording as the chunks it is sent in. */
function pieces(audio: Buffer, bytesEach: number): Buffer[] {
  const count = Math.ceil(audio.length / bytesEach);
  return Array.from({ length: count }, (_, index) => chunk(audio.subarray(index * bytesEach, (index + 1) * bytesEach)));
}

function speechHead(type: string): Buffer {
  return Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n`);
}

function repeat(bytes: Buffer, times: number): Buffer[] {
  return Array.from({ length: times }, () => bytes);
}
