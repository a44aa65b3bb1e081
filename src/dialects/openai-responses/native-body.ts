import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { sealedPrefix, type Part } from "../../operations/conversation/conversation.ts";
import { elementsOf, isJsonObject, lastMember, membersOf, valueOf, type JsonSpan } from "../../operations/json.ts";
import { splice, type Splice } from "../../operations/splice.ts";
import { ownValues } from "./models.ts";
import { textOf } from "../untrusted.ts";

export interface NativeBody {
  readonly body: Uint8Array;
  readonly clampedTo: number | null;
}

export interface NativeBodyOptions {
  readonly model: string;
  readonly ceiling: number | null;
  /** Opens what the gateway sealed for the client; null where this upstream did not make it. */
  readonly unseal: (sealed: string) => Part | null;
}

/** The client's own bytes, with the model's name and the number of tokens that this upstream takes. */
export function spliceResponsesBody(ask: ChatRequest, { model, ceiling, unseal }: NativeBodyOptions): NativeBody {
  const { body, members } = ask;
  const splices: Splice[] = [];
  let clampedTo: number | null = null;
  for (const { key, kind, start, end } of members) {
    // Every duplicate is renamed: an upstream that reads the first one must not see a model that the key may not use.
    if (key === "model") {
      splices.push({ start, end, text: JSON.stringify(model) });
    } else if (key === "max_output_tokens" && kind === "number" && ceiling !== null) {
      if ((valueOf(body, { start, end }) as number) <= ceiling) continue;
      splices.push({ start, end, text: String(ceiling) });
      clampedTo = ceiling;
    }
  }
  splices.push(...withoutForeignReasoning(ask, unseal));
  return { body: splice(body, splices), clampedTo };
}

/**
 * A conversation may have been served by another API before: the reasoning items that the gateway wrote then are not for this upstream,
 * which would refuse the whole request for them. One that holds the upstream's own reasoning becomes that again.
 */
function withoutForeignReasoning({ body, members }: ChatRequest, unseal: NativeBodyOptions["unseal"]): readonly Splice[] {
  const input = lastMember(members, "input");
  if (input?.kind !== "array" || !mayHold(body)) return [];
  const items = elementsOf(body, input.start, input.end);
  const changes = items.map((item) => changeOf(body, item, unseal));
  const lastKept = changes.findLastIndex((change) => change !== "remove");
  const splices: Splice[] = [];
  for (const [at, { start, end }] of items.entries()) {
    const change = changes[at];
    if (at > lastKept) break;
    // An item goes with the comma after it.
    if (change === "remove") splices.push({ start, end: items[at + 1]?.start ?? end, text: "" });
    else if (change !== "keep" && change !== undefined) splices.push({ start, end, text: change.text });
  }
  const [first, last] = [items[0], items.at(-1)];
  if (first !== undefined && last !== undefined && lastKept < items.length - 1) {
    splices.push({ start: items[lastKept]?.end ?? first.start, end: last.end, text: "" });
  }
  return splices;
}

type ItemChange = "keep" | "remove" | { readonly text: string };

function changeOf(body: Uint8Array, item: JsonSpan, unseal: NativeBodyOptions["unseal"]): ItemChange {
  if (item.kind !== "object") return "keep";
  const type = lastMember(membersOf(body, item.start, item.end), "type");
  if (type?.kind !== "string" || valueOf(body, type) !== "reasoning") return "keep";
  const reasoning = valueOf(body, item);
  if (!isJsonObject(reasoning)) return "keep";
  const sealed = textOf(reasoning["encrypted_content"]);
  if (!sealed.startsWith(sealedPrefix)) return textOf(reasoning["id"]).startsWith(gatewayIds) ? "remove" : "keep";
  const opened = unseal(sealed);
  const value = opened?.kind === "reasoning" ? opened.signature : null;
  if (value?.dialect !== ownValues) return "remove";
  return { text: JSON.stringify({ type: "reasoning", summary: reasoning["summary"] ?? [], encrypted_content: value.data }) };
}

/** Most requests hold none, and a search for two words is all that they cost. */
function mayHold(body: Uint8Array): boolean {
  const text = latin1.decode(body);
  return text.includes(sealedPrefix) || text.includes(gatewayIds);
}

/** What the ids of reasoning items begin with that this gateway wrote, for clients of this API. */
const gatewayIds = "rs_sluice_";
const latin1 = new TextDecoder("latin1");
