/** What a lab channel says if nothing goes wrong. */
export interface LabReply {
  /** It comes piece by piece. */
  readonly isStreamed: boolean;
  readonly contentType: string;
  /** What is sent with the head of a stream. */
  readonly opening: string;
  readonly pieces: readonly string[];
  readonly closing: string;
  /** The same, where it comes whole. */
  readonly whole: string;
}

/** How a lab channel answers: well, or with a fault, which has the names of the faults of the tests (`test/support/faults.ts`). */
export type LabBehaviour = "ok" | `fault:${LabFaultName}` | `fault:${LabFaultName}@${string}`;
export type LabFaultName = keyof typeof labFaults;

/** One connection to a lab channel. Each method rejects when the peer has left. */
export interface LabWire {
  write(text: string): Promise<void>;
  pause(ms: number): Promise<void>;
  /** Says nothing more until the peer leaves. */
  hold(): Promise<never>;
  /** FIN. */
  finish(): void;
  /** RST. */
  reset(): void;
}

/** Whether the connection may be used for another request. */
type Ended = "kept" | "closed";
type Fault = (wire: LabWire, reply: LabReply, argument: string) => Promise<Ended>;

export async function behave(behaviour: LabBehaviour, wire: LabWire, reply: LabReply): Promise<Ended> {
  if (behaviour === "ok") return answerWell(wire, reply);
  const [name = "", argument = ""] = behaviour.slice("fault:".length).split("@", 2);
  return labFaults[name as LabFaultName](wire, reply, argument);
}

const labFaults = {
  async status(wire, _reply, argument) {
    return refuse(wire, Number(argument), "The server had an error.");
  },
  async "rate-limit"(wire, _reply, argument) {
    const [header = "", value = ""] = argument.split("=", 2);
    return refuse(wire, 429, "Rate limit reached for requests.", `${header}: ${value}\r\n`);
  },
  async delay(wire, reply, argument) {
    await wire.pause(Number(argument));
    return answerWell(wire, reply);
  },
  "rst-before-headers"(wire) {
    wire.reset();
    return Promise.resolve("closed");
  },
  async "fin-chunked-after"(wire, reply, argument) {
    await beginStream(wire, reply, Number(argument));
    wire.finish();
    return "closed";
  },
  async "hang-after"(wire, reply, argument) {
    await beginStream(wire, reply, Number(argument));
    return wire.hold();
  },
  /** Half of the document, under a length that is true. */
  async "invalid-json"(wire, { whole }) {
    return answerWhole(wire, whole.slice(0, whole.length >> 1));
  },
  async "error-in-200"(wire, _reply, argument) {
    return answerWhole(wire, JSON.stringify({ error: { message: "The provider returned an error.", code: Number(argument) } }));
  },
  async "malformed-event"(wire, reply, argument) {
    const broken = 'data: {"choices":[{"index":0,"delta":{"content":"broken\n\n';
    return answerInStream(wire, reply, { at: Number(argument), event: broken });
  },
  async "endless-line"(wire) {
    await wire.write(streamHead("text/event-stream"));
    await wire.write(chunk('data: {"choices":[{"index":0,"delta":{"content":"'));
    const filler = chunk("x".repeat(64 * 1024));
    for (;;) await wire.write(filler);
  },
} as const satisfies Readonly<Record<string, Fault>>;

async function refuse(wire: LabWire, status: number, message: string, headers = ""): Promise<Ended> {
  const type = status === 429 ? "requests" : "server_error";
  return answerWhole(wire, JSON.stringify({ error: { message, type, param: null, code: null } }), `${status} Refused`, headers);
}

function answerWell(wire: LabWire, reply: LabReply): Promise<Ended> {
  return reply.isStreamed ? answerInStream(wire, reply) : answerWhole(wire, reply.whole);
}

async function answerWhole(wire: LabWire, body: string, status = "200 OK", headers = ""): Promise<Ended> {
  await wire.write(`HTTP/1.1 ${status}\r\nContent-Type: application/json\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`);
  return "kept";
}

async function answerInStream(
  wire: LabWire,
  reply: LabReply,
  extra: { readonly at: number; readonly event: string } | null = null,
): Promise<Ended> {
  const { pieces, closing } = reply;
  await beginStream(wire, reply, extra?.at ?? pieces.length);
  if (extra !== null) {
    await wire.write(chunk(extra.event));
    await sendPieces(wire, pieces.slice(extra.at));
  }
  // An empty chunk would be the end already.
  await wire.write(`${closing === "" ? "" : chunk(closing)}0\r\n\r\n`);
  return "kept";
}

async function beginStream(wire: LabWire, reply: LabReply, count: number): Promise<void> {
  const { contentType, opening, pieces } = reply;
  await wire.write(streamHead(contentType) + chunk(opening));
  await sendPieces(wire, pieces.slice(0, count));
}

async function sendPieces(wire: LabWire, pieces: readonly string[]): Promise<void> {
  for (const piece of pieces) {
    await wire.pause(pieceMs);
    await wire.write(chunk(piece));
  }
}

/** Slow enough to be watched. */
const pieceMs = 10;

function streamHead(contentType: string): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: ${contentType}\r\nTransfer-Encoding: chunked\r\n\r\n`;
}

/** All texts of the lab are sent as Latin-1, so that a character is a byte. */
function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}
