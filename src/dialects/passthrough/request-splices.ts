import { isTokenBound } from "../../operations/chat/chat-request.ts";
import { lastMember, membersOf, valueOf } from "../../operations/json.ts";
import { type Scanned, setMember, type Splice } from "../../operations/splice.ts";

/**
 * Renames the model, in every duplicate: an upstream that reads the first one must not see a model that the key may not use. Where the
 * request has none, it is added.
 */
export function renameModel(ask: Scanned & { readonly model: string }, model: string, splices: Splice[]): void {
  let count = 0;
  for (const { key } of ask.members) if (key === "model") count++;
  if (count === 1 && model === ask.model) return;
  const json = JSON.stringify(model);
  if (count === 0) splices.push(setMember(ask.body, ask.document, undefined, "model", json));
  for (const { key, start, end } of ask.members) if (key === "model") splices.push({ start, end, text: json });
}

/** Lowers values above the ceiling. Others keep their bytes, and an absent value stays absent. Returns the ceiling if it was applied. */
export function clampTokens(ask: Scanned, ceiling: number | null, splices: Splice[]): number | null {
  if (ceiling === null) return null;
  let clampedTo: number | null = null;
  for (const member of ask.members) {
    if (!isTokenBound(member.key) || member.kind !== "number" || (valueOf(ask.body, member) as number) <= ceiling) continue;
    splices.push({ start: member.start, end: member.end, text: String(ceiling) });
    clampedTo = ceiling;
  }
  return clampedTo;
}

/** Requests usage in the stream. Returns whether it must be hidden from the client, who did not ask for it. */
export function meterStream(ask: Scanned & { readonly stream: boolean; readonly wantsUsage: boolean }, splices: Splice[]): boolean {
  if (!ask.stream || ask.wantsUsage) return false;
  const options = lastMember(ask.members, "stream_options");
  if (options === undefined || options.kind === "null") {
    splices.push(setMember(ask.body, ask.document, options, "stream_options", `{"include_usage":true}`));
    return true;
  }
  if (options.kind !== "object") return false;
  const asked = lastMember(membersOf(ask.body, options.start, options.end), "include_usage");
  splices.push(setMember(ask.body, options, asked, "include_usage", "true"));
  return true;
}
