import {
  sealedPrefix,
  type Part,
  type ProviderValue,
  type ReasoningPart,
  type TextPart,
} from "../../operations/conversation/conversation.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/** What is sealed of an answer, and where it stood in it: a message has one text, and its calls come after that. */
export interface SealedThought {
  readonly data: string;
  /** The characters of text before it. */
  readonly characters: number;
  /** The calls before it. */
  readonly calls: number;
}

/** The text of the thoughts of an earlier answer, under the names that several servers have for it; null where there is none. */
export function reasoningText(message: JsonObject): ReasoningPart | null {
  const text = textOf(message["reasoning_content"]) || textOf(message["reasoning"]) || detailsOf(message).map(detailText).join("");
  return text === "" ? null : { kind: "reasoning", text, signature: null };
}

/**
 * What the gateway sealed of an earlier answer, in order. Values of others are left out: an upstream that speaks this API gets them in the
 * client's own bytes, and no other can read them.
 */
export function sealedThoughts(message: JsonObject): readonly SealedThought[] {
  const byData = new Map<string, SealedThought>();
  for (const detail of detailsOf(message)) {
    const data = textOf(detail["data"]);
    const [, characters = "0", calls = "0"] = placeForm.exec(textOf(detail["id"])) ?? [];
    if (isSealed(data)) byData.set(data, { data, characters: Number(characters), calls: Number(calls) });
  }
  return [...byData.values()];
}

function detailsOf(message: JsonObject): readonly JsonObject[] {
  const details = message["reasoning_details"];
  return Array.isArray(details) ? (details as readonly unknown[]).filter(isJsonObject) : [];
}

function detailText({ text, summary }: JsonObject): string {
  return textOf(text) || textOf(summary);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isSealed(data: string): boolean {
  return data.startsWith(sealedPrefix);
}

function sealedValue(data: string): ProviderValue {
  return { dialect: "sluice", data };
}

/** The parts of an answer with what is sealed of it at its place: a provider may refuse its own thoughts in another order. */
export function withSealed(parts: readonly Part[], thoughts: readonly SealedThought[]): readonly Part[] {
  if (thoughts.length === 0) return parts;
  const placed = new PlacedThoughts(thoughts);
  for (const part of parts) placed.add(part);
  return placed.end();
}

class PlacedThoughts {
  private readonly parts: Part[] = [];
  private characters = 0;
  private calls = 0;
  /** The number of the first thought that has no place yet. */
  private next = 0;

  constructor(private readonly thoughts: readonly SealedThought[]) {}

  add(part: Part): void {
    if (part.kind === "text") return this.addText(part);
    if (part.kind === "tool_call") {
      this.take(({ calls }) => calls <= this.calls);
      this.calls++;
    }
    this.parts.push(part);
  }

  end(): readonly Part[] {
    this.take(() => true);
    return this.parts;
  }

  /** A text is cut where a thought stood in it. What else is known of it stays with its end. */
  private addText(part: TextPart): void {
    let { text } = part;
    for (;;) {
      this.take(({ characters, calls }) => calls === 0 && characters <= this.characters);
      const thought = this.thoughts[this.next];
      const length = thought?.calls === 0 ? thought.characters - this.characters : text.length;
      if (length >= text.length) break;
      this.parts.push({ kind: "text", text: text.slice(0, length) });
      text = text.slice(length);
      this.characters += length;
    }
    this.parts.push({ ...part, text });
    this.characters += text.length;
  }

  private take(isDue: (thought: SealedThought) => boolean): void {
    for (let thought = this.thoughts[this.next]; thought !== undefined && isDue(thought); thought = this.thoughts[++this.next]) {
      this.parts.push({ kind: "reasoning", text: "", signature: sealedValue(thought.data), redacted: true });
    }
  }
}

/** The sealed signature of a call. It comes in the field that clients know from the one provider that signs calls, whose name is in it. */
export function callSignature(call: JsonObject): ProviderValue | null {
  const extra = call["extra_content"];
  const google = isJsonObject(extra) ? extra["google"] : null;
  const signature = isJsonObject(google) ? textOf(google["thought_signature"]) : "";
  return isSealed(signature) ? sealedValue(signature) : null;
}

export function callExtra(sealed: string): JsonObject {
  return { extra_content: { google: { thought_signature: sealed } } };
}

/** What only its provider understands of a part, for the client to carry; empty where there is nothing, or no way to seal it. */
export function sealedOf(part: Part, { seal }: AnswerContext): string {
  return seal?.(part) ?? "";
}

/** What is sealed of an answer, as clients know it from providers that show encrypted reasoning. Its id says where it stood. */
export function reasoningDetails(sealed: readonly SealedThought[]): JsonObject | undefined {
  if (sealed.length === 0) return undefined;
  return {
    reasoning_details: sealed.map(({ data, characters, calls }, index) => ({
      type: "reasoning.encrypted",
      data,
      id: `at-${characters}-${calls}`,
      format: "sluice-v1",
      index,
    })),
  };
}

const placeForm = /^at-(\d{1,9})-(\d{1,9})$/;
