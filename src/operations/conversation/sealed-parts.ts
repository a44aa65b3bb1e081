import type { Conversation, ConversationTurn, Part, ProviderValue, ReasoningPart, TextPart, ToolCallPart } from "./conversation.ts";
import { sealedPrefix } from "./conversation.ts";
import { isJsonObject } from "../json.ts";

/**
 * Encrypts texts so that whoever carries them can neither read nor change nor make them. They open with the same context only.
 */
export interface TextSeal {
  /** Null where the text is too long to be carried. */
  seal(text: string, context: readonly string[]): string | null;
  /** Null for everything that `seal` did not make with this context. */
  open(sealed: string, context: readonly string[]): string | null;
}

/** Whom a part was made by, and for whom. What was sealed for one owner opens for no other. */
export interface PartOwner {
  /** The client's key. */
  readonly keyId: string;
  readonly dialect: string;
  /** Host and port of the upstream. */
  readonly host: string;
  /** The upstream's name of the model. */
  readonly model: string;
}

/** A part with what only its provider understands, for a client to carry; empty where there is nothing, or too much of it. */
export function sealPart(part: Part, seal: TextSeal, owner: PartOwner): string {
  const content = contentOf(part);
  const sealed = content === null ? null : seal.seal(JSON.stringify(content), contextOf(owner));
  return sealed === null ? "" : sealedPrefix + sealed;
}

/** The part that was sealed for this owner; null for anything else. */
export function openPart(sealed: string, seal: TextSeal, owner: PartOwner): Part | null {
  if (!sealed.startsWith(sealedPrefix)) return null;
  const text = seal.open(sealed.slice(sealedPrefix.length), contextOf(owner));
  return text === null ? null : partOf(text);
}

function contextOf({ keyId, dialect, host, model }: PartOwner): readonly string[] {
  return [keyId, dialect, host, model];
}

/** What is sealed of a part. Of a call it is the signature alone: the client returns the rest as it is. */
function contentOf(part: Part): object | null {
  switch (part.kind) {
    case "reasoning":
      return part.signature === null ? null : part;
    case "text":
      return part.signature === undefined ? null : { kind: part.kind, text: part.text, signature: part.signature };
    case "tool_call":
      return part.signature === undefined ? null : { kind: part.kind, id: part.id, signature: part.signature };
    default:
      return null;
  }
}

/** We sealed it, but maybe in another version of the gateway. */
function partOf(text: string): Part | null {
  const content: unknown = JSON.parse(text);
  if (!isJsonObject(content)) return null;
  const signature = valueOf(content["signature"]);
  if (signature === null) return null;
  const { kind, text: words, id } = content;
  if (kind === "tool_call" && typeof id === "string") return { kind, id, name: "", arguments: "", signature };
  if (typeof words !== "string") return null;
  if (kind === "text") return { kind, text: words, signature };
  if (kind !== "reasoning") return null;
  return {
    kind,
    text: words,
    signature,
    ...(content["summary"] === true ? { summary: true } : undefined),
    ...(content["redacted"] === true ? { redacted: true } : undefined),
  };
}

function valueOf(value: unknown): ProviderValue | null {
  if (!isJsonObject(value)) return null;
  const { dialect, data } = value;
  return typeof dialect === "string" && typeof data === "string" ? { dialect, data } : null;
}

/**
 * The conversation with its sealed parts opened. Those that do not open are left out: they are forged, damaged, too old, or of another
 * provider. Each turn is changed by itself, so that the beginning of a conversation stays the same from turn to turn.
 */
export function withOpenedParts(conversation: Conversation, open: (sealed: string) => Part | null): Conversation {
  const { turns } = conversation;
  if (!turns.some(holdsSealed)) return conversation;
  return { ...conversation, turns: turns.map((turn) => openedTurn(turn, open)).filter(({ parts }) => parts.length > 0) };
}

function holdsSealed({ parts }: ConversationTurn): boolean {
  return parts.some(isSealed);
}

function isSealed(part: Part): boolean {
  return "signature" in part && part.signature?.dialect === "sluice";
}

function openedTurn(turn: ConversationTurn, open: (sealed: string) => Part | null): ConversationTurn {
  if (!holdsSealed(turn)) return turn;
  const parts: Part[] = [];
  const signed: Part[] = [];
  for (const part of turn.parts) {
    const opened = isSealed(part) && "signature" in part && part.signature != null ? open(part.signature.data) : null;
    if (opened !== null && opened.kind !== "reasoning") signed.push(opened);
    // A thought may be carried by the call that came after it, and also by itself.
    else if (opened?.kind === "reasoning" && part.kind !== "reasoning" && !parts.some((other) => isSameThought(other, opened)))
      parts.push(opened);
    if (part.kind === "tool_call" || part.kind === "text") parts.push(isSealed(part) ? unsigned(part) : part);
    else if (part.kind !== "reasoning") parts.push(part);
    else if (opened?.kind === "reasoning") parts.push(opened);
    // Beside what is sealed, a thought without a signature is a copy of it, or nobody knows whose it is.
    else if (part.signature !== null && !isSealed(part)) parts.push(part);
  }
  return { ...turn, parts: parts.map((part) => withSignature(part, signed)) };
}

function isSameThought(part: Part, { signature }: ReasoningPart): boolean {
  return part.kind === "reasoning" && signature !== null && part.signature?.data === signature.data;
}

function unsigned(part: TextPart | ToolCallPart): TextPart | ToolCallPart {
  const { signature: _, ...rest } = part;
  return rest;
}

/** A signature belongs to exactly one call or text. */
function withSignature(part: Part, signed: readonly Part[]): Part {
  const isCall = part.kind === "tool_call";
  if (!isCall && part.kind !== "text") return part;
  for (const one of signed) {
    const fits = isCall ? one.kind === "tool_call" && one.id === part.id : one.kind === "text" && one.text === part.text;
    if (fits && "signature" in one && one.signature != null) return { ...part, signature: one.signature };
  }
  return part;
}
