import type { FinishReason, StreamPart } from "../../operations/conversation/answer-parts.ts";
import type { Tool } from "../../operations/conversation/conversation.ts";
import { unwrapCustomInput } from "../../operations/conversation/custom-input.ts";
import { ToolNames } from "../../operations/conversation/tool-names.ts";
import type { Emission } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { servedBy, withSearches } from "../../operations/usage.ts";
import type { EventDecoder, SseEvent } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { parseUntrusted, textOf } from "../untrusted.ts";
import { errorIn } from "./answer.ts";
import { groundedPages, searchesIn } from "./grounding.ts";
import { PartialArguments } from "./partial-args.ts";
import {
  blockReasonOf,
  calledAs,
  candidatesOf,
  endReasonOf,
  factsOf,
  finishOf,
  indexOf,
  noReason,
  partOf,
  partsOf,
  pieces,
} from "./response-parts.ts";
import { geminiUsage } from "./usage.ts";

export interface GeminiStreamOptions {
  readonly choices: number;
  /** The tools of a conversation that is translated; null where the client speaks this API, and gets the events as they are. */
  readonly tools: readonly Tool[] | null;
}

/**
 * Reads the events of `streamGenerateContent`. Each is a response of its own with the next parts. There is no end mark: a stream is complete
 * if every candidate has its `finishReason` when the body ends, and interrupted if not.
 */
export class GeminiStream implements EventDecoder {
  private readonly open = new Set<number>();
  private readonly done = new Set<number>();
  private hasOutput = false;
  private calledTools = false;
  /** The most searches that a response of the stream has named: they name all so far, and the last one often none. */
  private searches = 0;
  private ended = false;
  /** The last event of a candidate that goes on said so in the words of a default. */
  private isUnspecified = false;
  private finish: FinishReason | null = null;
  private readonly parts: ResponsePieces | null;

  constructor(private readonly options: GeminiStreamOptions) {
    this.parts = options.tools === null ? null : new ResponsePieces(options.tools);
  }

  get finished(): boolean {
    return this.open.size === 0 && this.done.size >= this.options.choices;
  }

  read(event: SseEvent): readonly Emission[] | Failure {
    if (this.ended) return none;
    const value = parseUntrusted(event.data, event.frame, "data: ".length, -2);
    const error = errorIn(value);
    if (error !== null) return this.broken(explainInBand(error));
    if (!isJsonObject(value)) return [{ kind: "skipped", detail: "an event is not a JSON object" }];

    const candidates = candidatesOf(value);
    this.searches = Math.max(this.searches, searchesIn(candidates));
    const usage = servedBy(withSearches(geminiUsage(value["usageMetadata"]), this.searches), value["modelVersion"]);
    const facts = factsOf(candidates.flatMap(partsOf));
    const read = this.parts?.read(value) ?? null;
    if (read !== null && isFailure(read)) return this.broken(read);
    const isFailedWithout = facts.output === null && !this.hasOutput;
    if (facts.output === "tool_call") this.calledTools = true;
    let finishes = candidates.length === 0 && blockReasonOf(value) !== null;
    if (finishes) for (let index = 0; index < this.options.choices; index++) this.settle(index, "content_filter");
    for (const candidate of candidates) {
      const reason = endReasonOf(candidate);
      const index = indexOf(candidate);
      if (reason === "") {
        this.isUnspecified = candidate["finishReason"] === noReason;
        if (!this.done.has(index)) this.open.add(index);
        continue;
      }
      const finish = finishOf(reason, this.calledTools);
      // A client that speaks this API reads the reason itself; in another API there is none for it.
      if (finish === "failed" && (isFailedWithout || this.parts !== null)) {
        return this.broken(failure("model_failed", `the stream's finishReason is ${reason}`));
      }
      finishes = true;
      this.settle(index, finish === "failed" ? "stop" : finish);
    }
    if (facts.output !== null) this.hasOutput = true;
    const looked = {
      kind: "delta",
      output: facts.output ?? (finishes ? "finish" : null),
      text: facts.text,
      finishes,
      ...(facts.unsaid === "" ? undefined : { unsaid: facts.unsaid }),
    } as const;
    const delta: Emission =
      read === null
        ? { ...looked, frame: event.frame }
        : { ...looked, frame: nothing, parts: finishes ? [...read, this.finishPart()] : read };
    return usage === null ? [delta] : [delta, { kind: "usage", frame: null, usage }];
  }

  close(): readonly Emission[] | Failure {
    if (this.ended) return none;
    if (!this.finished) {
      // A client that speaks this API reads in the last event that there is no reason.
      if (this.isUnspecified && this.hasOutput && this.parts === null) return this.endWith("stop");
      if (this.isUnspecified) return this.broken(failure("model_failed", `the stream's finishReason is ${noReason}`));
      return this.broken(failure("bad_response", "the stream ended before its first output"), "the stream ended without a finishReason");
    }
    return this.endWith(this.finish);
  }

  private endWith(finish: FinishReason | null): readonly Emission[] {
    this.ended = true;
    return [{ kind: "end", frame: nothing, finish }];
  }

  private settle(index: number, finish: FinishReason): void {
    this.open.delete(index);
    this.done.add(index);
    if (index === 0 || this.finish === null) this.finish = finish;
  }

  private finishPart(): StreamPart {
    return { kind: "finish", finish: { reason: this.finish ?? "stop", stopSequence: null } };
  }

  /** Before the first output a failure keeps its kind, so that the attempt can be retried; after it, the answer was interrupted. */
  private broken(cause: Failure, detail = cause.detail): Failure {
    return this.hasOutput ? failure("interrupted", detail, { status: cause.status, upstreamWords: cause.upstreamWords }) : cause;
  }
}

const none: readonly Emission[] = [];
const nothing = new Uint8Array(0);

/** What the responses of a stream say, where the client speaks another API. Only the first candidate is read. */
class ResponsePieces {
  private broken = false;
  private started = false;
  private calls = 0;
  /** The text so far, which the pages that it is made of are told about in bytes. They are told once. */
  private text = "";
  private isGrounded = false;
  private readonly names: ToolNames;
  /** A call whose arguments arrive in pieces. */
  private openCall: { readonly tool: Tool | null; readonly index: number; readonly args: PartialArguments } | null = null;

  constructor(tools: readonly Tool[]) {
    this.names = new ToolNames(tools);
  }

  read(response: JsonObject): readonly StreamPart[] | Failure {
    const read: StreamPart[] = [];
    if (!this.started) {
      this.started = true;
      const id = textOf(response["responseId"]) || null;
      read.push({ kind: "start", id, model: textOf(response["modelVersion"]) || null, createdSeconds: null });
    }
    const candidate = candidatesOf(response).find((one) => indexOf(one) === 0);
    if (candidate === undefined) return read;
    for (const part of partsOf(candidate)) this.readPart(part, read);
    for (const piece of read) if (piece.kind === "text") this.text += piece.text;
    const sources = groundedPages(candidate, this.text);
    if (sources.length > 0 && !this.isGrounded) read.push({ kind: "sources", sources });
    this.isGrounded ||= sources.length > 0;
    if (endReasonOf(candidate) !== "") this.closeCall(read);
    return this.broken ? failure("bad_response", "the arguments of a call cannot be put together") : read;
  }

  private readPart(part: JsonObject, read: StreamPart[]): void {
    const call = part["functionCall"];
    if (isJsonObject(call) && (this.openCall !== null || call["partialArgs"] !== undefined || call["willContinue"] === true)) {
      return this.readPartial(part, call, read);
    }
    const whole = partOf(part, this.names);
    if (whole === null) return;
    if (whole.kind === "tool_call") {
      if (whole.name === "" || this.calls >= callsMax) return;
      read.push(...pieces(whole, this.calls++));
    } else read.push(...pieces(whole, 0));
  }

  /** The first piece of a call has its name and its signature; the last one does not say that more will follow. */
  private readPartial(part: JsonObject, call: JsonObject, read: StreamPart[]): void {
    const name = textOf(call["name"]);
    if (name !== "") {
      this.closeCall(read);
      const whole = partOf(part, this.names);
      if (whole?.kind !== "tool_call" || this.calls >= callsMax) return;
      const tool = this.names.toolOf(name);
      const { signature } = whole;
      const index = this.calls++;
      read.push({
        kind: "tool_call",
        index,
        id: whole.id,
        ...calledAs(tool, name),
        ...(signature === undefined ? undefined : { signature }),
      });
      this.openCall = { tool, index, args: new PartialArguments() };
    }
    this.openCall?.args.push(call["partialArgs"]);
    if (isJsonObject(call["args"]) && Object.keys(call["args"]).length > 0) this.openCall?.args.replace(call["args"]);
    if (call["willContinue"] !== true) this.closeCall(read);
  }

  private closeCall(read: StreamPart[]): void {
    const { openCall } = this;
    if (openCall === null) return;
    this.openCall = null;
    const json = openCall.args.json();
    if (json === null) {
      this.broken = true;
      return;
    }
    const text = openCall.tool?.custom === undefined ? json : unwrapCustomInput(json);
    read.push({ kind: "tool_arguments", index: openCall.index, text });
  }
}

/** More calls than any answer makes. */
const callsMax = 1024;
