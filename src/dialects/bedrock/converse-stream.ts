import type { Finish, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Tool } from "../../operations/conversation/conversation.ts";
import type { Emission, Output } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import type { Emissions } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { AnsweredCalls } from "../translated/tool-calls.ts";
import { parseUntrusted, objectOf, textOf } from "../untrusted.ts";
import { converseUsage, finishOf } from "./converse-answer.ts";
import { converseDialect } from "./converse-body.ts";
import type { EventStreamMessage } from "./event-stream.ts";
import type { MessageDecoder } from "./event-stream-reader.ts";

/** What the events of a Converse stream say. The stop reason and the usage come at the end, in either order. */
export class ConverseStream implements MessageDecoder {
  private readonly calls: AnsweredCalls;
  private started = false;
  private hasOutput = false;
  private finish: Finish | null = null;
  private hasUsage = false;
  private ended = false;
  /** The pieces of the open block of reasoning. */
  private signature = "";
  private redacted = "";

  constructor(tools: readonly Tool[]) {
    this.calls = new AnsweredCalls(tools);
  }

  get finished(): boolean {
    return this.finish !== null;
  }

  read({ headers, payload }: EventStreamMessage): Emissions {
    if (this.ended) return none;
    const body = payload.length === 0 ? {} : objectOf(parseUntrusted(decoder.decode(payload), payload));
    const exception = exceptionIn(headers, body);
    if (exception !== null) return this.broken(exception);
    if (body === null) return this.broken(failure("bad_response", "an event is not a JSON object"));
    switch (headers.get(":event-type")) {
      case "messageStart":
        return this.delta([], null);
      case "contentBlockStart":
        return this.blockStart(indexOf(body), objectOf(body["start"]) ?? {});
      case "contentBlockDelta":
        return this.blockDelta(indexOf(body), objectOf(body["delta"]) ?? {});
      case "contentBlockStop":
        return this.blockStop(indexOf(body));
      case "messageStop":
        return this.stop(body["stopReason"]);
      case "metadata":
        return this.usage(body["usage"]);
      default:
        return [{ kind: "skipped", detail: "an event of an unknown type" }];
    }
  }

  close(): Emissions {
    if (this.ended) return none;
    if (this.finish !== null) return this.end(this.finish);
    return this.broken(failure("bad_response", "the stream ended before its first output"), "the stream ended without a stop reason");
  }

  /** Before the first output a failure keeps its kind, so that the attempt can be retried; after it, the answer was interrupted. */
  broken(cause: Failure, detail = cause.detail): Failure {
    return this.hasOutput ? failure("interrupted", detail, { status: cause.status, upstreamWords: cause.upstreamWords }) : cause;
  }

  private blockStart(index: number, start: JsonObject): Emissions {
    const call = objectOf(start["toolUse"]);
    if (call === null) return none;
    const name = textOf(call["name"]);
    return this.delta(this.calls.begin(index, textOf(call["toolUseId"]), name), "tool_call", "", name);
  }

  private blockDelta(index: number, delta: JsonObject): Emissions {
    const { text } = delta;
    if (typeof text === "string") return text === "" ? none : this.delta([{ kind: "text", text }], "text", text);
    const call = objectOf(delta["toolUse"]);
    if (call !== null) {
      const args = textOf(call["input"]);
      return args === "" ? none : this.delta(this.calls.add(index, args), "tool_call", "", args);
    }
    const reasoning = objectOf(delta["reasoningContent"]);
    if (reasoning === null) return none;
    this.signature += textOf(reasoning["signature"]);
    this.redacted = joined(this.redacted, textOf(reasoning["redactedContent"]));
    const thought = textOf(reasoning["text"]);
    return thought === "" ? none : this.delta([{ kind: "reasoning", text: thought }], "reasoning", "", thought);
  }

  private blockStop(index: number): Emissions {
    const { signature, redacted } = this;
    this.signature = "";
    this.redacted = "";
    const parts: StreamPart[] = [...this.calls.end(index)];
    if (redacted !== "") {
      parts.push({ kind: "reasoning_signature", signature: { dialect: converseDialect, data: redacted }, redacted: true });
    } else if (signature !== "") {
      parts.push({ kind: "reasoning_signature", signature: { dialect: converseDialect, data: signature }, redacted: false });
    }
    if (parts.length === 0) return none;
    return this.delta(parts, redacted === "" ? null : "reasoning");
  }

  private stop(stopReason: unknown): Emissions {
    const finish = finishOf(stopReason, this.calls.count > 0);
    if (isFailure(finish)) return this.broken(finish);
    this.finish = finish;
    const finishing = this.delta([...this.calls.endAll(), { kind: "finish", finish }], "finish");
    return this.hasUsage ? [...finishing, ...this.end(finish)] : finishing;
  }

  private usage(value: unknown): Emissions {
    const usage = converseUsage(value);
    this.hasUsage = true;
    const reported: readonly Emission[] = usage === null ? none : [{ kind: "usage", frame: null, usage }];
    return this.finish === null ? reported : [...reported, ...this.end(this.finish)];
  }

  private end(finish: Finish): readonly Emission[] {
    this.ended = true;
    return [{ kind: "end", frame: noFrame, finish: finish.reason }];
  }

  private delta(parts: readonly StreamPart[], output: Output | null, text = "", unsaid = ""): readonly Emission[] {
    const said: readonly StreamPart[] = this.started ? parts : [{ kind: "start", id: null, model: null, createdSeconds: null }, ...parts];
    this.started = true;
    if (output !== null) this.hasOutput = true;
    const plain = { kind: "delta", frame: noFrame, output, text, finishes: output === "finish", parts: said } as const;
    return [unsaid === "" ? plain : { ...plain, unsaid }];
  }
}

/** An error inside of the stream: an exception of the service, or an error of the transport. */
function exceptionIn(headers: EventStreamMessage["headers"], body: JsonObject | null): Failure | null {
  switch (headers.get(":message-type")) {
    case "exception":
      return explainInBand({ type: headers.get(":exception-type") ?? "", message: textOf(body?.["message"] ?? body?.["Message"]) });
    case "error":
      return explainInBand({ type: headers.get(":error-code") ?? "", message: headers.get(":error-message") ?? "" });
    default:
      return null;
  }
}

function indexOf(body: JsonObject): number {
  const index = body["contentBlockIndex"];
  return typeof index === "number" && Number.isInteger(index) && index >= 0 ? index : 0;
}

/** Base64 that came in pieces, each of which may be padded. */
function joined(one: string, other: string): string {
  if (one === "" || other === "") return one + other;
  try {
    return btoa(atob(one) + atob(other));
  } catch {
    return one + other;
  }
}

const none: readonly Emission[] = [];
const noFrame = new Uint8Array();
const decoder = new TextDecoder();
