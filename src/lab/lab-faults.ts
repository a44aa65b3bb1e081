import { eventsOf, wholeAnswer, type LabChatRequest } from "./lab-chat.ts";

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
type Fault = (wire: LabWire, request: LabChatRequest, argument: string) => Promise<Ended>;

export async function behave(behaviour: LabBehaviour, wire: LabWire, request: LabChatRequest): Promise<Ended> {
  if (behaviour === "ok") return answerWell(wire, request);
  const [name = "", argument = ""] = behaviour.slice("fault:".length).split("@", 2);
  return labFaults[name as LabFaultName](wire, request, argument);
}

const labFaults = {
  async status(wire, _request, argument) {
    return refuse(wire, Number(argument), "The server had an error.");
  },
  async "rate-limit"(wire, _request, argument) {
    const [header = "", value = ""] = argument.split("=", 2);
    return refuse(wire, 429, "Rate limit reached for requests.", `${header}: ${value}\r\n`);
  },
  async delay(wire, request, argument) {
    await wire.pause(Number(argument));
    return answerWell(wire, request);
  },
  "rst-before-headers"(wire) {
    wire.reset();
    return Promise.resolve("closed");
  },
  async "fin-chunked-after"(wire, request, argument) {
    await beginStream(wire, request, Number(argument));
    wire.finish();
    return "closed";
  },
  async "hang-after"(wire, request, argument) {
    await beginStream(wire, request, Number(argument));
    return wire.hold();
  },
  /** Half of the document, under a length that is true. */
  async "invalid-json"(wire, request) {
    const body = wholeAnswer(request);
    return answerWhole(wire, body.slice(0, body.length >> 1));
  },
  async "error-in-200"(wire, _request, argument) {
    return answerWhole(wire, JSON.stringify({ error: { message: "The provider returned an error.", code: Number(argument) } }));
  },
  async "malformed-event"(wire, request, argument) {
    const broken = 'data: {"choices":[{"index":0,"delta":{"content":"broken\n\n';
    return answerInStream(wire, request, { at: Number(argument), event: broken });
  },
  async "endless-line"(wire) {
    await wire.write(streamHead);
    await wire.write(chunk('data: {"choices":[{"index":0,"delta":{"content":"'));
    const filler = chunk("x".repeat(64 * 1024));
    for (;;) await wire.write(filler);
  },
} as const satisfies Readonly<Record<string, Fault>>;

async function refuse(wire: LabWire, status: number, message: string, headers = ""): Promise<Ended> {
  const type = status === 429 ? "requests" : "server_error";
  return answerWhole(wire, JSON.stringify({ error: { message, type, param: null, code: null } }), `${status} Refused`, headers);
}

function answerWell(wire: LabWire, request: LabChatRequest): Promise<Ended> {
  return request.stream ? answerInStream(wire, request) : answerWhole(wire, wholeAnswer(request));
}

async function answerWhole(wire: LabWire, body: string, status = "200 OK", headers = ""): Promise<Ended> {
  await wire.write(`HTTP/1.1 ${status}\r\nContent-Type: application/json\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`);
  return "kept";
}

async function answerInStream(
  wire: LabWire,
  request: LabChatRequest,
  extra: { readonly at: number; readonly event: string } | null = null,
): Promise<Ended> {
  const { tokens, end } = eventsOf(request);
  await beginStream(wire, request, extra?.at ?? tokens.length);
  if (extra !== null) {
    await wire.write(chunk(extra.event));
    await sendTokens(wire, tokens.slice(extra.at));
  }
  await wire.write(`${chunk(end)}0\r\n\r\n`);
  return "kept";
}

async function beginStream(wire: LabWire, request: LabChatRequest, count: number): Promise<void> {
  const { role, tokens } = eventsOf(request);
  await wire.write(streamHead + chunk(role));
  await sendTokens(wire, tokens.slice(0, count));
}

async function sendTokens(wire: LabWire, tokens: readonly string[]): Promise<void> {
  for (const token of tokens) {
    await wire.pause(tokenMs);
    await wire.write(chunk(token));
  }
}

/** Slow enough to be watched. */
const tokenMs = 10;
const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/** All texts of the lab are ASCII, so that a character is a byte. */
function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}
