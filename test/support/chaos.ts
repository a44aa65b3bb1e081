import net, { type AddressInfo, type Server, type Socket } from "node:net";
import tls from "node:tls";
import { answer, jsonType } from "./chaos/answer.ts";
import { askOf, askOfUpload, type Ask } from "./chaos/ask.ts";
import { Exchange, type Operation } from "./chaos/exchange.ts";
import { Ledger, type Attempt, type Connection } from "./chaos/ledger.ts";
import { healthyManner, taggedWords, type Tempo } from "./chaos/manner.ts";
import { header, readBeginning, readHead, readRest, type ChaosHead, type ChaosRequest } from "./chaos/request.ts";
import { formatOf } from "./chaos/spoken.ts";
import { prepareTakes } from "./chaos/take.ts";
import { uploadIn, type Upload } from "./chaos/upload.ts";
import { TlsRelay } from "./chaos/tls-relay.ts";
import { Departed, Wire } from "./chaos/wire.ts";
import { eventually } from "./eventually.ts";
import { misbehave, partsOf } from "./faults.ts";
import { uploadedBytes } from "./faults/upload.ts";
import { Inbox } from "./inbox.ts";

/** Starts an upstream that speaks the OpenAI convention and misbehaves on demand; see `faults.ts` for the ways. */
export async function startChaos(options: ChaosOptions = {}): Promise<Chaos> {
  const chaos = new Chaos(options);
  await chaos.listen(options.port ?? 0);
  return chaos;
}

export interface ChaosOptions {
  /** Begins the id of each attempt, and so the tag of each token. Default: a letter no other instance has. */
  readonly name?: string;
  readonly port?: number;
  readonly tls?: ChaosTls;
  /** With TLS: its connections can be cut below it (`tls-cut-after`). */
  readonly cutsTls?: boolean;
  /** Overrides what the model asks for. */
  readonly behaviour?: string;
  readonly models?: readonly string[];
  /** Tokens and pace of an answer to a request that does not set its own. */
  readonly tempo?: Partial<Tempo>;
}

export interface ChaosTls {
  readonly key: string;
  readonly cert: string;
  readonly minVersion?: tls.SecureVersion;
  readonly maxVersion?: tls.SecureVersion;
}

export class Chaos implements AsyncDisposable {
  readonly name: string;
  readonly ledger = new Ledger();
  models: readonly string[];
  readonly #secure: boolean;
  readonly #tempo: Tempo;
  readonly #server: Server;
  /** What clients of a secure one connect to, so that its connections can be cut below TLS. */
  readonly #relay: TlsRelay | null;
  readonly #guests = new Set<Guest>();
  readonly #bugs: unknown[] = [];
  #behaviour: string | null = null;
  #modelsBehaviour = "ok";
  #script: string[] = [];
  #released = Promise.withResolvers<void>();

  constructor(options: ChaosOptions) {
    this.name = options.name ?? nextName();
    this.models = options.models ?? ["chaos"];
    this.behaviour = options.behaviour ?? null;
    this.#tempo = { tokens: 5, firstMs: 0, paceMs: 0, ...options.tempo };
    this.#secure = options.tls !== undefined;
    this.#server = serverOf(options.tls, (socket) => this.#receive(socket));
    this.#relay = options.cutsTls === true ? new TlsRelay(() => (this.#server.address() as AddressInfo).port) : null;
  }

  async listen(port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.#relay === null ? port : 0, "127.0.0.1", resolve);
    });
    await this.#relay?.listen(port);
  }

  get port(): number {
    return this.#relay?.port ?? (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `${this.#secure ? "https" : "http"}://127.0.0.1:${this.port}/v1`;
  }

  /** What every attempt meets, be it chat, transcription or speech, whatever its model says; null leaves it to the model. */
  get behaviour(): string | null {
    return this.#behaviour;
  }

  set behaviour(behaviour: string | null) {
    partsOf(behaviour ?? "");
    this.#behaviour = behaviour;
  }

  /** What a call for the list of models meets. */
  get modelsBehaviour(): string {
    return this.#modelsBehaviour;
  }

  set modelsBehaviour(behaviour: string) {
    partsOf(behaviour);
    this.#modelsBehaviour = behaviour;
  }

  /** The next attempts meet these behaviours, one each, before `behaviour` and the model count again. */
  script(behaviours: readonly string[]): void {
    for (const behaviour of behaviours) partsOf(behaviour);
    this.#script.push(...behaviours);
  }

  /** The next so many attempts in a row have no content for so long. */
  slowSeries(attempts: number, ms: number): void {
    this.script(Array.from({ length: attempts }, () => `fault:delay@${ms}`));
  }

  /** Lets every answer go on that is `held` now. */
  release(): void {
    this.#released.resolve();
    this.#released = Promise.withResolvers();
  }

  async waitFor(holds: (ledger: Ledger) => boolean, withinMs = 10_000): Promise<void> {
    await eventually(`what is awaited of upstream ${this.name}`, () => holds(this.ledger), withinMs);
  }

  /** FIN on every connection that has been used and waits for more. One that was never used is not waiting but lost. */
  closeIdleConnections(): void {
    for (const { wire, busy, connection } of this.#guests) {
      if (!busy && connection.requests > 0) wire.finish();
    }
  }

  /** FIN on every connection, whatever it is in the middle of. */
  finishConnections(): void {
    for (const { wire } of this.#guests) wire.finish();
  }

  /** RST on every connection, whatever it is in the middle of. */
  async resetConnections(): Promise<void> {
    await Promise.all([...this.#guests].map((guest) => guest.wire.reset(0).catch(() => {})));
  }

  /** Ends everything. Throws if a request named a fault that does not exist, or if the upstream itself failed. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#relay?.close();
    for (const guest of this.#guests) guest.wire.destroy();
    await closed;
    await this.waitFor((ledger) => ledger.connectionsOpen === 0);
    await this.ledger.settled();
    if (this.#bugs.length > 0) throw this.#bugs[0];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #receive(socket: Socket): void {
    const connection: Connection = {
      number: this.ledger.connections.length + 1,
      acceptedAt: performance.now(),
      closedAt: null,
      requests: 0,
      closedOnReuse: false,
    };
    const guest: Guest = {
      wire: new Wire(socket, this.#relay === null ? null : () => this.#relay!.cut(socket)),
      inbox: new Inbox(),
      connection,
      busy: false,
    };
    this.ledger.connections.push(connection);
    this.#guests.add(guest);
    socket.on("data", (bytes: Buffer) => guest.inbox.push(bytes));
    socket.on("end", () => guest.inbox.end());
    socket.on("close", () => {
      guest.inbox.end();
      connection.closedAt = performance.now();
      this.#guests.delete(guest);
    });
    void this.#serve(guest).catch((bug: unknown) => {
      this.#bugs.push(bug);
      guest.wire.destroy();
    });
  }

  async #serve(guest: Guest): Promise<void> {
    const { wire, inbox, connection } = guest;
    let onReuse: Exchange["onReuse"] = "serve";
    while (await inbox.stirs()) {
      if (onReuse !== "serve") {
        connection.closedOnReuse = true;
        return onReuse === "reset" ? wire.reset(0) : wire.destroy();
      }
      guest.busy = true;
      const head = await readHead(inbox);
      const partBytes = head === null ? null : this.#partBytes(head);
      const request = head === null ? null : await (partBytes === null ? readRest(inbox, head) : readBeginning(inbox, head, partBytes));
      // Bytes that are no request are neither answered nor turned away, like a handshake that stalls.
      if (request === null) return wire.untilDeparture().catch(() => wire.destroy());
      connection.requests += 1;
      const exchange = await this.#answer(guest, request, partBytes !== null);
      guest.busy = false;
      if (!exchange.reusable) return;
      onReuse = exchange.onReuse;
    }
    wire.finish();
  }

  /** How much is read of a request before a fault in the middle of its upload; null: all of it. */
  #partBytes(head: ChaosHead): number | null {
    return isAsked(head) ? uploadedBytes(this.#script[0] ?? this.#behaviour ?? "") : null;
  }

  async #answer(guest: Guest, request: ChaosRequest, isPart: boolean): Promise<Exchange> {
    const operation = operationOf(request);
    const upload = uploadIn(header(request, "content-type"), request.body);
    const asked = upload === null ? askOf(request.body) : askOfUpload(upload);
    const ask = operation === "speech" ? { ...asked, stream: true } : asked;
    const behaviour = this.#nextBehaviour(request, ask);
    const attempt = this.#record(guest.connection, request, ask, behaviour, upload);
    const manner = healthyManner(taggedWords(attempt.id), {
      tokens: ask.tokens ?? this.#tempo.tokens,
      firstMs: ask.firstMs ?? this.#tempo.firstMs,
      paceMs: ask.paceMs ?? this.#tempo.paceMs,
    });
    const { wire } = guest;
    const exchange = new Exchange({
      instance: this.name,
      operation,
      isPart,
      request,
      ask,
      attempt,
      manner,
      wire,
      released: this.#released.promise,
    });
    try {
      if (operation === "speech") await Promise.all((["pcm", "wav", formatOf(exchange)] as const).map(prepareTakes));
      await misbehave(exchange, behaviour);
      if (!exchange.ended) await this.#behave(exchange);
    } catch (error) {
      attempt.endedBy = error instanceof Departed ? "client_closed" : "fault";
      attempt.closedAt = performance.now();
      wire.destroy();
      if (!(error instanceof Departed)) this.#bugs.push(error);
    }
    return exchange;
  }

  async #behave(exchange: Exchange): Promise<void> {
    const { method, path } = exchange.request;
    if (exchange.operation !== "other") return answer(exchange);
    if (method === "GET" && path.startsWith("/v1/models")) {
      const data = this.models.map((id) => ({
        id,
        object: "model",
        created: 0,
        owned_by: "chaos",
      }));
      const body = JSON.stringify({ object: "list", data });
      return exchange.reply({ contentType: jsonType, body });
    }
    const error = {
      message: `Unknown request URL: ${method} ${path}`,
      type: "invalid_request_error",
    };
    const body = JSON.stringify({ error: { ...error, param: null, code: "unknown_url" } });
    return exchange.reply({ status: 404, contentType: jsonType, body });
  }

  #nextBehaviour(request: ChaosRequest, ask: Ask): string {
    if (!isAsked(request)) return request.method === "GET" ? this.#modelsBehaviour : "ok";
    return this.#script.shift() ?? this.#behaviour ?? ask.model ?? "ok";
  }

  #record(connection: Connection, request: ChaosRequest, ask: Ask, behaviour: string, upload: Upload | null): Attempt {
    const tokensSent: string[] = [];
    const attempt: Attempt = {
      ...request,
      body: upload === null ? request.body : new Uint8Array(0),
      upload,
      id: `${this.name}${this.ledger.attempts.length + 1}`,
      connection: connection.number,
      at: performance.now(),
      model: ask.model,
      call: ask.call,
      streamed: ask.stream,
      behaviour,
      tokensSent,
      choicesSent: [tokensSent],
      thoughtsSent: 0,
      audioSent: [],
      usageSent: null,
      statusSent: null,
      bytesSent: 0,
      lastSentAt: null,
      endedBy: null,
      closedAt: null,
    };
    this.ledger.attempts.push(attempt);
    return attempt;
  }
}

interface Guest {
  readonly wire: Wire;
  readonly inbox: Inbox;
  readonly connection: Connection;
  busy: boolean;
}

function serverOf(secure: ChaosTls | undefined, receive: (socket: Socket) => void): Server {
  if (secure === undefined) return net.createServer({ allowHalfOpen: true }, receive);
  const server = tls.createServer({ ...secure, allowHalfOpen: true }, receive);
  // A client that does not like our certificate is what these servers are for.
  server.on("tlsClientError", () => {});
  return server;
}

function isAsked(head: ChaosHead): boolean {
  return operationOf(head) !== "other";
}

function operationOf({ method, path }: ChaosHead): Operation {
  if (method !== "POST") return "other";
  if (path.startsWith("/v1/chat/completions")) return "chat";
  if (path.startsWith("/v1/audio/speech")) return "speech";
  return path.startsWith("/v1/audio/transcriptions") || path.startsWith("/v1/audio/translations") ? "transcription" : "other";
}

let instances = 0;

function nextName(): string {
  const number = instances++;
  const letter = String.fromCharCode(97 + (number % 26));
  return number < 26 ? letter : `${letter}${Math.floor(number / 26)}x`;
}
