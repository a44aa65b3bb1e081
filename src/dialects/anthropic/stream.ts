import type { StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Tool } from "../../operations/conversation/conversation.ts";
import { CustomInputReader } from "../../operations/conversation/custom-input.ts";
import { ToolNames } from "../../operations/conversation/tool-names.ts";
import type { Emission, Output } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { servedBy, type MeteredUsage } from "../../operations/usage.ts";
import type { EventDecoder, SseEvent } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { parseUntrusted, filledTextOf } from "../untrusted.ts";
import { CitedBlocks } from "./cited-blocks.ts";
import { ownValues } from "./content-blocks.ts";
import { calledAs, contentOf, endReason, fallbackModel, finishOf, finishReason, isAnswer, refusalText } from "./message-parts.ts";
import { messageUsage } from "./message-usage.ts";
import { concatBytes } from "../../operations/splice.ts";

/** What an event says: its parts, and what the gateway counts and decides on. */
interface EventMeaning {
  readonly output: Output | null;
  readonly text?: string;
  /** Output besides the text: thoughts, the arguments of calls. */
  readonly unsaid?: string;
  readonly parts?: readonly StreamPart[];
  readonly finishes?: boolean;
}

/** A block that is not complete yet. */
interface StreamedBlock {
  readonly kind: "text" | "thinking" | "call" | "answer" | "other";
  /** The number of the call among the calls. */
  readonly call: number;
  /** Unwraps the text of a tool that takes free text. */
  readonly input: CustomInputReader | null;
  hasInput: boolean;
  signature: string;
}

/**
 * Reads the events of a streamed message. For a client that speaks this API their frames pass as they came. An event that says nothing
 * (a ping, the border of a block) waits for the next one and leaves with it: a ping alone is no progress, and if another channel takes
 * over, the client has received nothing that the writer has not seen.
 */
export class MessagesStream implements EventDecoder {
  private readonly blocks = new Map<number, StreamedBlock>();
  private readonly names: ToolNames;
  /** The client speaks this API: it needs the names of events. */
  readonly keepsNames: boolean;
  private id: string | null = null;
  private started = false;
  private ended = false;
  private hasOutput = false;
  private texts = 0;
  private calls = 0;
  /** The answer is the input of a tool that the client does not know. */
  private hasAnswer = false;
  private finish: string | null = null;
  private usage: MeteredUsage | null = null;
  /** The model that the provider fell back to; null where it did not. */
  private fallback: string | null = null;
  private readonly cited = new CitedBlocks();
  private waitingFrames: Uint8Array[] = [];
  private waitingBytes = 0;
  private waitingParts: StreamPart[] = [];

  /** `tools`: those of a request that was translated; null: the client speaks this API. */
  constructor(tools: readonly Tool[] | null) {
    this.keepsNames = tools === null;
    this.names = new ToolNames(tools ?? []);
  }

  get finished(): boolean {
    return this.finish !== null;
  }

  read(event: SseEvent): readonly Emission[] | Failure {
    if (this.ended) return none;
    const data = parseUntrusted(event.data, event.frame, this.dataAt(event), -2);
    if (!isJsonObject(data)) return [{ kind: "skipped", detail: "an event is not a JSON object" }];
    switch (data["type"]) {
      case "message_start":
        return this.start(event, data);
      case "message_delta":
        return this.messageDelta(event, data);
      case "message_stop":
        return this.end(event.frame);
      case "error":
        return this.broken(explainInBand(data["error"] ?? data));
      case "content_block_start":
        return this.say(event, this.blockStart(data));
      case "content_block_delta":
        return this.say(event, this.blockDelta(data));
      case "content_block_stop":
        return this.say(event, this.blockStop(data));
      default:
        return this.say(event, silent);
    }
  }

  /** Where the payload begins in the frame. */
  private dataAt({ name }: SseEvent): number {
    return "data: ".length + (this.keepsNames && name !== "" ? `event: ${name}\n`.length : 0);
  }

  /** Where only the last event is missing, everything has been said. */
  close(): readonly Emission[] | Failure {
    if (this.ended) return none;
    if (this.finish !== null) return this.end(stopFrame);
    return this.broken(failure("bad_response", "the stream ended before its first output"), "the stream ended without a stop_reason");
  }

  /** Some proxies repeat the first event. Another message in the middle of one makes both worthless. */
  private start(event: SseEvent, data: JsonObject): readonly Emission[] | Failure {
    const message = isJsonObject(data["message"]) ? data["message"] : {};
    const id = filledTextOf(message["id"]);
    if (this.started) {
      return id === this.id ? none : this.broken(failure("bad_response", "another message began in the middle of the stream"));
    }
    this.started = true;
    this.id = id;
    this.usage = messageUsage(message["usage"]);
    const begun = this.begunWith(message);
    const parts: readonly StreamPart[] = [
      { kind: "start", id, model: filledTextOf(message["model"]), createdSeconds: null },
      ...begun.parts,
    ];
    const said = this.say(event, { ...begun, parts });
    // How much is written is not known before the end; if that never comes, it is estimated.
    const written = this.finish === null ? null : (this.usage?.completionTokens ?? null);
    return this.usage === null ? said : [...said, { kind: "usage", frame: null, usage: { ...this.usage, completionTokens: written } }];
  }

  /**
   * A message that is not new begins with its content, and with the reason why it ended: of a call that code at the provider makes, more is
   * not streamed.
   */
  private begunWith(message: JsonObject): EventMeaning & Required<Pick<EventMeaning, "parts">> {
    const blocks = contentOf(message).map((content_block, index) => [{ index, content_block }, { index }] as const);
    const all = blocks.flatMap(([start, stop]) => [this.blockStart(start), this.blockStop(stop)]);
    const parts = all.flatMap((one) => one.parts ?? []);
    const reason = filledTextOf(endReason(message["stop_reason"], this.hasAnswer));
    if (reason !== null) parts.push(this.finishedBy(reason, message["stop_sequence"]));
    return {
      output: all.find(({ output }) => output !== null)?.output ?? (reason === null ? null : "finish"),
      text: all.map(({ text = "" }) => text).join(""),
      unsaid: all.map(({ unsaid = "" }) => unsaid).join(""),
      parts,
      finishes: reason !== null,
    };
  }

  private messageDelta(event: SseEvent, data: JsonObject): readonly Emission[] {
    const delta = isJsonObject(data["delta"]) ? data["delta"] : {};
    const reason = filledTextOf(endReason(delta["stop_reason"], this.hasAnswer));
    const parts: StreamPart[] = [];
    if (reason !== null) {
      const refusal = refusalText(delta["stop_details"]);
      if (refusal !== null) parts.push({ kind: "refusal", text: refusal });
      parts.push(this.finishedBy(reason, delta["stop_sequence"]));
    }
    const said = this.say(event, { output: reason === null ? null : "finish", parts, finishes: reason !== null });
    const reported = isJsonObject(data["usage"]) ? messageUsage(data["usage"], this.usage) : null;
    if (reported === null) return said;
    this.usage = servedBy(reported, this.fallback);
    return this.usage === null ? said : [...said, { kind: "usage", frame: null, usage: this.usage }];
  }

  private finishedBy(reason: string, stopSequence: unknown): StreamPart {
    const finish = finishOf(reason, stopSequence);
    this.finish = this.keepsNames ? finishReason(reason) : finish.reason;
    return { kind: "finish", finish };
  }

  private blockStart(data: JsonObject): EventMeaning {
    const block = isJsonObject(data["content_block"]) ? data["content_block"] : {};
    const index = indexOf(data);
    switch (block["type"]) {
      case "text": {
        this.open(index, "text");
        this.cited.begin();
        this.texts++;
        const text = filledTextOf(block["text"]) ?? "";
        // A second text is another block to the client: what is said in it cannot be continued as if it were one.
        const output = this.texts > 1 && this.keepsNames ? "tool_call" : text === "" ? null : "text";
        return { output, text, parts: text === "" ? [] : [{ kind: "text", text }] };
      }
      case "thinking": {
        this.open(index, "thinking").signature = filledTextOf(block["signature"]) ?? "";
        return thought(filledTextOf(block["thinking"]) ?? "");
      }
      case "redacted_thinking": {
        this.open(index, "other");
        const value = filledTextOf(block["data"]);
        if (value === null) return silent;
        return { output: "reasoning", parts: [{ kind: "reasoning_signature", signature: ownValue(value), redacted: true }] };
      }
      case "tool_use":
        return this.callStart(index, block);
      case "fallback": {
        this.open(index, "other");
        const model = fallbackModel(block);
        this.fallback = model ?? this.fallback;
        const served: readonly StreamPart[] = model === null ? [] : [{ kind: "start", id: this.id, model, createdSeconds: null }];
        return { output: null, parts: this.keepsNames ? [...served, { kind: "passed_block" }] : served };
      }
      default:
        // A tool of the provider has begun to work: it must not run again.
        this.open(index, "other");
        return { output: "tool_call" };
    }
  }

  private callStart(index: number, block: JsonObject): EventMeaning {
    const name = filledTextOf(block["name"]) ?? "";
    const tool = this.names.toolOf(name);
    const input = isJsonObject(block["input"]) && Object.keys(block["input"]).length > 0 ? JSON.stringify(block["input"]) : "";
    if (!this.keepsNames && isAnswer(name, tool)) {
      this.hasAnswer = true;
      return answerPiece(this.open(index, "answer"), input);
    }
    const call = this.calls++;
    const open = this.open(index, "call", call, tool?.custom === undefined ? null : new CustomInputReader());
    const parts: StreamPart[] = [{ kind: "tool_call", index: call, id: filledTextOf(block["id"]) ?? "", ...calledAs(tool, name) }];
    if (input !== "") parts.push(...argumentsPart(open, input));
    return { output: "tool_call", unsaid: name + input, parts };
  }

  private blockDelta(data: JsonObject): EventMeaning {
    const delta = isJsonObject(data["delta"]) ? data["delta"] : {};
    const block = this.blocks.get(indexOf(data));
    switch (delta["type"]) {
      case "text_delta": {
        const text = filledTextOf(delta["text"]) ?? "";
        return text === "" ? silent : { output: "text", text, parts: [{ kind: "text", text }] };
      }
      case "thinking_delta":
        return thought(filledTextOf(delta["thinking"]) ?? "");
      case "signature_delta":
        if (block !== undefined && block.signature.length < signatureMax) block.signature += filledTextOf(delta["signature"]) ?? "";
        return silent;
      case "input_json_delta": {
        const piece = filledTextOf(delta["partial_json"]) ?? "";
        if (block?.kind === "answer") return answerPiece(block, piece);
        if (piece === "" || block?.kind !== "call") return silent;
        return { output: "tool_call", unsaid: piece, parts: argumentsPart(block, piece) };
      }
      case "citations_delta":
        this.cited.cite(delta["citation"]);
        return { output: null, parts: [{ kind: "citations", citations: ownValue(JSON.stringify(delta["citation"] ?? null)) }] };
      default:
        return silent;
    }
  }

  private blockStop(data: JsonObject): EventMeaning {
    const index = indexOf(data);
    const block = this.blocks.get(index);
    this.blocks.delete(index);
    if (block?.kind === "thinking" && block.signature !== "") {
      return { output: "reasoning", parts: [{ kind: "reasoning_signature", signature: ownValue(block.signature), redacted: false }] };
    }
    if (block?.kind === "text") {
      const sources = this.cited.end();
      return sources.length === 0 ? silent : { output: null, parts: [{ kind: "sources", sources }] };
    }
    // Without any input, the answer is an empty object.
    if (block?.kind === "answer") return block.hasInput ? silent : answerPiece(block, "{}");
    if (block?.kind !== "call") return silent;
    const rest = block.input === null ? (block.hasInput ? "" : "{}") : block.input.close();
    return rest === "" ? silent : { output: null, parts: [{ kind: "tool_arguments", index: block.call, text: rest }] };
  }

  private open(index: number, kind: StreamedBlock["kind"], call = -1, input: CustomInputReader | null = null): StreamedBlock {
    const block: StreamedBlock = { kind, call, input, hasInput: false, signature: "" };
    if (this.blocks.size < openMax) this.blocks.set(index, block);
    return block;
  }

  /** The emissions of an event: none while it has to wait for the next one. */
  private say(event: SseEvent, { output, text = "", unsaid, parts = [], finishes = false }: EventMeaning): readonly Emission[] {
    if (output !== null) this.hasOutput = true;
    this.cited.said(parts);
    this.waitingParts.push(...parts);
    if (this.keepsNames) {
      this.waitingFrames.push(event.frame);
      this.waitingBytes += event.frame.length;
      if (output === null && this.waitingBytes < waitingMax) return none;
    } else if (this.waitingParts.length === 0 && output === null) return none;
    const delta = { kind: "delta", frame: this.takeFrames(), output, text, finishes, parts: this.waitingParts } as const;
    this.waitingParts = [];
    return [unsaid === undefined ? delta : { ...delta, unsaid }];
  }

  private takeFrames(): Uint8Array {
    const frames = this.waitingFrames;
    if (frames.length === 0) return nothing;
    const [only] = frames;
    const bytes = frames.length === 1 && only !== undefined ? only : concatBytes(frames);
    this.waitingFrames = [];
    this.waitingBytes = 0;
    return bytes;
  }

  private end(frame: Uint8Array): readonly Emission[] | Failure {
    if (this.finish === null) {
      return this.broken(failure("bad_response", "the stream ended before its first output"), "the stream ended without a stop_reason");
    }
    this.ended = true;
    if (this.keepsNames) {
      this.waitingFrames.push(frame);
      this.waitingBytes += frame.length;
    }
    return [{ kind: "end", frame: this.takeFrames(), finish: this.finish }];
  }

  /** Before the first output a failure keeps its kind, so that the attempt can be retried; after it, the answer was interrupted. */
  private broken(cause: Failure, detail = cause.detail): Failure {
    return this.hasOutput ? failure("interrupted", detail, { status: cause.status, upstreamWords: cause.upstreamWords }) : cause;
  }
}

const silent: EventMeaning = { output: null };

function thought(text: string): EventMeaning {
  return text === "" ? silent : { output: "reasoning", unsaid: text, parts: [{ kind: "reasoning", text }] };
}

/** A piece of an answer that is the input of a tool: to the client it is text. */
function answerPiece(block: StreamedBlock, text: string): EventMeaning {
  if (text === "") return silent;
  block.hasInput = true;
  return { output: "text", text, parts: [{ kind: "text", text }] };
}

function argumentsPart(block: StreamedBlock, piece: string): readonly StreamPart[] {
  block.hasInput = true;
  const text = block.input === null ? piece : block.input.push(piece);
  return text === "" ? [] : [{ kind: "tool_arguments", index: block.call, text }];
}

function ownValue(data: string): { readonly dialect: string; readonly data: string } {
  return { dialect: ownValues, data };
}

function indexOf(data: JsonObject): number {
  return typeof data["index"] === "number" ? data["index"] : 0;
}

const none: readonly Emission[] = [];
const nothing = new Uint8Array(0);
const encoder = new TextEncoder();
const stopFrame = encoder.encode('event: message_stop\ndata: {"type":"message_stop"}\n\n');
/** More blocks than any answer has open at once. */
const openMax = 1024;
/** Longer than any signature. */
const signatureMax = 1024 * 1024;
/** Frames that say nothing are not kept beyond this. */
const waitingMax = 64 * 1024;
