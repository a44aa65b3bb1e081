import type { StreamPlace } from "../../operations/conversation/surface.ts";
import type { Emission, Output } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import type { EventDecoder, SseEvent } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { parseUntrusted, textOf } from "../untrusted.ts";
import { troubleIn } from "./answer.ts";
import { argumentsOf, finishOf, isCall, thoughtOf, usageOf, wordsOf, type DeclaredTools } from "./items.ts";
import { ItemProgress } from "./item-progress.ts";
import { EventParts } from "./stream-parts.ts";

/**
 * Reads the events of a response. For a client that speaks this API they are not changed: it is found out what the gateway has to know,
 * which is the first output, the usage, and whether the stream is complete. For other clients, each event also says its parts.
 */
export class ResponsesStream implements EventDecoder {
  readonly keepsNames = true;
  /** The id of the response. */
  private id = "";
  private sequence = -1;
  private readonly progress = new ItemProgress();
  private hasOutput = false;
  private ended = false;
  /** The places in the output whose text came in deltas: the whole item is not counted again. */
  private readonly streamed = new Set<number>();
  /** The client has to answer a call. */
  private calls = false;
  private readonly parts: EventParts | null;

  /** `tools`: those of a conversation that is translated; null where the client speaks this API. */
  constructor(tools: DeclaredTools | null) {
    this.parts = tools === null ? null : new EventParts(tools);
  }

  get finished(): boolean {
    return this.ended;
  }

  read(event: SseEvent): readonly Emission[] | Failure {
    if (this.ended) return none;
    // Some upstreams end every stream like one of chat completions, which means nothing here.
    if (event.data.startsWith("[DONE]")) return none;
    const value = parse(event);
    if (value === null) return [{ kind: "skipped", detail: "an event is not a JSON object" }];
    const type = textOf(value["type"]) || event.name;
    switch (type) {
      case "error":
        return this.broken(explainInBand(isJsonObject(value["error"]) ? value["error"] : { ...value, type: null }));
      case "response.failed":
      case "response.cancelled":
        return this.broken(failedIn(value, type));
      case "response.completed":
      case "response.incomplete":
        return this.end(type, value, event.frame);
      default:
        return this.delta(type, value, event.frame);
    }
  }

  close(): readonly Emission[] | Failure {
    if (this.ended) return none;
    return this.broken(failure("bad_response", "the stream ended before its first output"), "the stream ended without its last event");
  }

  private delta(type: string, value: JsonObject, frame: Uint8Array): readonly Emission[] | Failure {
    const { output, text, unsaid } = this.heard(type, value);
    if (output !== null) this.hasOutput = true;
    const plain = { kind: "delta", frame, output, text, finishes: false } as const;
    const looked = unsaid === "" ? plain : { ...plain, unsaid };
    if (this.parts === null) return [this.placed(looked, type, value)];
    const parts = this.parts.read(type, value);
    return parts === null ? this.broken(tooManyItems) : [{ ...looked, frame: nothing, parts }];
  }

  /** With the number of the event and what is complete, for an error or for another channel that may follow it. */
  private placed<Delta extends object>(delta: Delta, type: string, value: JsonObject): Delta & { readonly place: StreamPlace } {
    const { sequence_number: sequence, response } = value;
    if (isJsonObject(response)) this.id = textOf(response["id"]) || this.id;
    this.progress.read(type, value);
    // Some upstreams number no events. Nobody can go on in the middle of a stream whose client counts on nothing.
    const isKnown = this.id !== "" && typeof sequence === "number";
    this.sequence = typeof sequence === "number" ? sequence : this.sequence + 1;
    return { ...delta, place: { id: this.id, sequence: this.sequence, resume: isKnown ? this.progress.point : null } };
  }

  /** The last event carries the usage and says why the response ended. Its type decides, whatever the status in it. */
  private end(type: string, value: JsonObject, frame: Uint8Array): readonly Emission[] | Failure {
    const { response: last, error } = value;
    if (!isJsonObject(last)) return this.broken(failure("bad_response", "the last event has no response"));
    const trouble = last["error"] ?? error ?? null;
    if (trouble !== null) return this.broken(explainInBand(trouble));
    const response = { ...last, status: type === "response.incomplete" ? "incomplete" : "completed" };
    const parts = this.parts === null ? undefined : this.parts.read(type, { response });
    if (parts === null) return this.broken(tooManyItems);
    const said = parts === undefined ? { frame } : { frame: nothing, parts };
    const output: Output | null = this.hasOutput ? null : "finish";
    const usage = usageOf(response);
    const { reason } = finishOf(response);
    this.ended = true;
    this.hasOutput = true;
    return [
      { kind: "delta", ...said, output, text: "", finishes: true },
      ...(usage === null ? [] : [{ kind: "usage", frame: null, usage } as const]),
      { kind: "end", frame: nothing, finish: reason === "stop" && this.calls ? "tool_calls" : reason },
    ];
  }

  /** The output in an event: what it is, and its text. */
  private heard(type: string, value: JsonObject): Heard {
    const delta = textOf(value["delta"]);
    const kind = deltas.get(type);
    if (kind !== undefined) {
      if (delta === "") return unheard;
      if (kind === "tool_call") this.calls = true;
      if (this.streamed.size < placesMax) this.streamed.add(placeOf(value));
      return kind === "text" ? { output: kind, text: delta, unsaid: "" } : { output: kind, text: "", unsaid: delta };
    }
    const item = value["item"];
    if (!isJsonObject(item)) return unheard;
    this.calls ||= isCall(item);
    if (type === "response.output_item.added") return begun(item);
    return type === "response.output_item.done" ? this.done(item, placeOf(value)) : unheard;
  }

  private done(item: JsonObject, place: number): Heard {
    const isKnown = this.streamed.has(place);
    if (item["type"] === "message") {
      const text = isKnown ? "" : wordsOf(item);
      return text === "" ? unheard : { output: "text", text, unsaid: "" };
    }
    if (item["type"] === "reasoning") return { output: "reasoning", text: "", unsaid: isKnown ? "" : thoughtOf(item).text };
    return { output: "tool_call", text: "", unsaid: isKnown || !isCall(item) ? "" : argumentsOf(item) };
  }

  /** Before the first output a failure keeps its kind, so that the attempt can be retried; after it, the answer was interrupted. */
  private broken(cause: Failure, detail = cause.detail): Failure {
    return this.hasOutput ? failure("interrupted", detail, { status: cause.status, upstreamWords: cause.upstreamWords }) : cause;
  }
}

interface Heard {
  readonly output: Output | null;
  readonly text: string;
  readonly unsaid: string;
}

const unheard: Heard = { output: null, text: "", unsaid: "" };

const deltas: ReadonlyMap<string, Output> = new Map<string, Output>([
  ["response.output_text.delta", "text"],
  ["response.refusal.delta", "refusal"],
  ["response.reasoning_summary_text.delta", "reasoning"],
  ["response.reasoning_text.delta", "reasoning"],
  ["response.function_call_arguments.delta", "tool_call"],
  ["response.custom_tool_call_input.delta", "tool_call"],
]);

/** A message or a thought that begins is no output yet. Anything else is a call, and may act at the upstream: it is not repeated. */
function begun(item: JsonObject): Heard {
  const { type } = item;
  return type === "message" || type === "reasoning" ? unheard : { output: "tool_call", text: "", unsaid: textOf(item["name"]) };
}

function placeOf(value: JsonObject): number {
  return typeof value["output_index"] === "number" ? value["output_index"] : 0;
}

function failedIn(value: JsonObject, type: string): Failure {
  const response = isJsonObject(value["response"]) ? value["response"] : value;
  return troubleIn({ status: "failed", ...response }) ?? failure("model_failed", `the stream ended with ${type}`);
}

/** The bytes of the payload are only looked at where it is long. */
function parse({ data, frame }: SseEvent): JsonObject | null {
  const from = (frame[0] === 0x65 ? frame.indexOf(lineFeed) + 1 : 0) + "data: ".length;
  const value = parseUntrusted(data, frame, from, -2);
  return isJsonObject(value) ? value : null;
}

const lineFeed = 10;
const none: readonly Emission[] = [];
const nothing = new Uint8Array(0);
const tooManyItems = failure("bad_response", "the stream has more items than an answer can have");
/** More items than any answer has: those beyond are counted twice, if the upstream reports no usage. */
const placesMax = 4096;
