import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type { ItemReferences } from "../../operations/conversation/surface.ts";
import { lastMember, membersOf, valueOf, type JsonSpan } from "../../operations/json.ts";
import { field, listed } from "../../operations/request-fields.ts";
import { splice } from "../../operations/splice.ts";

/**
 * With `store`, which is true unless a client says otherwise, clients may send the ids of items that they got instead of the items. The AI
 * SDK does so by default, for texts and reasoning.
 */
export const itemReferences: ItemReferences = {
  idsIn: (request) => referencesIn(request).map(({ id }) => id),
  resolved: (request, items) => {
    const known = referencesIn(request).flatMap(({ id, start, end }) => {
      const text = items.get(id);
      return text === undefined ? [] : [{ start, end, text }];
    });
    return splice(request.body, known);
  },
};

/** Whether the client lets its response be stored. */
export function letsStore({ members }: ChatRequest): boolean {
  return field(members, "store")?.kind !== "false";
}

interface Reference {
  readonly id: string;
  readonly start: number;
  readonly end: number;
}

function referencesIn({ body, members }: ChatRequest): readonly Reference[] {
  const input = lastMember(members, "input");
  if (input?.kind !== "array" || !mayRefer(body, input)) return none;
  const found: Reference[] = [];
  for (const item of listed(body, input)) {
    const id = item.kind === "object" ? referredId(body, item) : null;
    if (id !== null && found.length < referencesMax) found.push({ id, start: item.start, end: item.end });
  }
  return found;
}

function referredId(body: Uint8Array, item: JsonSpan): string | null {
  const members = membersOf(body, item.start, item.end);
  const type = lastMember(members, "type");
  const id = lastMember(members, "id");
  if (type?.kind !== "string" || id?.kind !== "string" || id.end - id.start > idBytesMax) return null;
  return valueOf(body, type) === "item_reference" ? (valueOf(body, id) as string) : null;
}

/** Most requests refer to nothing, and a search for a word is all that they cost. */
function mayRefer(body: Uint8Array, { start, end }: JsonSpan): boolean {
  return latin1.decode(body.subarray(start, end)).includes("item_reference");
}

const latin1 = new TextDecoder("latin1");
const none: readonly Reference[] = [];
/** Our own ids have about fifty bytes. */
const idBytesMax = 200;
/** What a longer conversation refers to beyond that stays a reference. */
const referencesMax = 2_000;
