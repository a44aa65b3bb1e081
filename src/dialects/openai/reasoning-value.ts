import type { ProviderValue } from "../../operations/conversation/conversation.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/** Whose values these are: an upstream that speaks this API gets them back as it wrote them. */
export const ownDialect = "openai";

/** How an upstream writes its reasoning, beyond the text of it. */
export interface ReasoningForm {
  /** The field of the text. Upstreams refuse the other one. */
  readonly field: "reasoning_content" | "reasoning";
  /** Some sign or encrypt their reasoning, block by block (`reasoning_details`). */
  readonly details: readonly JsonObject[];
}

export function reasoningValue({ field, details }: ReasoningForm): ProviderValue {
  const form = { ...(field === "reasoning" ? { field } : undefined), ...(details.length > 0 ? { details } : undefined) };
  return { dialect: ownDialect, data: JSON.stringify(form) };
}

export function reasoningForm({ data }: ProviderValue): ReasoningForm {
  const form = parsed(data);
  const details = form?.["details"];
  return {
    field: form?.["field"] === "reasoning" ? "reasoning" : "reasoning_content",
    details: Array.isArray(details) ? (details as readonly unknown[]).filter(isJsonObject) : [],
  };
}

/** What an upstream adds to a tool call and needs back with it (`extra_content`). */
export function callValue(extra: unknown): ProviderValue | undefined {
  return isJsonObject(extra) ? { dialect: ownDialect, data: JSON.stringify(extra) } : undefined;
}

export function callExtra(value: ProviderValue | undefined): JsonObject | null {
  return value?.dialect === ownDialect ? parsed(value.data) : null;
}

function parsed(data: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(data);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** Collects the reasoning of an answer while it streams: where its text comes in, and its details, whose pieces are joined. */
export class ReasoningPieces {
  private field: ReasoningForm["field"] = "reasoning_content";
  private details: JsonObject[] = [];
  private open = false;
  private hasText = false;

  /** A message or a delta of one. Returns the text that it adds. */
  add(message: JsonObject): string {
    const { reasoning_content: content, reasoning, reasoning_details: details } = message;
    const text = content ?? reasoning;
    if (Array.isArray(details)) for (const detail of details as readonly unknown[]) if (isJsonObject(detail)) this.join(detail);
    if (typeof text !== "string" || text === "") return "";
    if (typeof content !== "string") this.field = "reasoning";
    this.open = true;
    this.hasText = true;
    return text;
  }

  /** Something else follows: what the upstream needs back of the reasoning so far; null where there was none. */
  close(): { readonly signature: ProviderValue; readonly redacted: boolean } | null {
    if (!this.open) return null;
    const { field, details, hasText } = this;
    this.open = false;
    this.hasText = false;
    this.details = [];
    return { signature: reasoningValue({ field, details }), redacted: !hasText };
  }

  /** The pieces of one detail have its number, and follow one another. */
  private join(piece: JsonObject): void {
    this.open = true;
    const last = this.details.at(-1);
    if (last === undefined || last["type"] !== piece["type"] || last["index"] !== piece["index"] || last["index"] === undefined) {
      if (this.details.length < detailsMax) this.details.push(piece);
      return;
    }
    const joined: Record<string, unknown> = { ...last };
    for (const [key, value] of Object.entries(piece)) {
      const before = joined[key];
      const grows = growing.has(key) && typeof before === "string" && typeof value === "string";
      if (value !== null && value !== undefined) joined[key] = grows ? before + value : value;
    }
    this.details[this.details.length - 1] = joined;
  }
}

const growing: ReadonlySet<string> = new Set(["text", "summary", "data"]);
/** More blocks than any answer has. */
const detailsMax = 1024;
