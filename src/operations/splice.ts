import { type JsonMember, pastSpace } from "./json.ts";

/** Replaces the bytes [start, end) with a text. If both are equal, the text is inserted there. */
export interface Splice {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/**
 * Applies splices in one copy; all other bytes stay the same. Without splices it returns the same array. Splices may be in any order, and
 * insertions at one offset keep theirs. Overlapping splices are a bug.
 */
export function splice(bytes: Uint8Array, splices: readonly Splice[]): Uint8Array {
  if (splices.length === 0) return bytes;
  const ordered = splices.length === 1 ? splices : splices.toSorted((a, b) => a.start - b.start || a.end - b.end);
  const pieces: Uint8Array[] = [];
  let taken = 0;
  for (const { start, end, text } of ordered) {
    if (!(taken <= start && start <= end && end <= bytes.length)) {
      throw new RangeError(`cannot splice bytes ${start} to ${end} of ${bytes.length}: the first ${taken} are taken`);
    }
    pieces.push(bytes.subarray(taken, start), encoder.encode(text));
    taken = end;
  }
  pieces.push(bytes.subarray(taken));
  return concatBytes(pieces);
}

export function concatBytes(pieces: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  const whole = new Uint8Array(length);
  let written = 0;
  for (const piece of pieces) {
    whole.set(piece, written);
    written += piece.length;
  }
  return whole;
}

const encoder = new TextEncoder();

/**
 * Replaces the value of a member of the object at `document`, or inserts the member at the beginning. An empty object allows only one
 * insertion, because that has no comma.
 */
export function setMember(
  bytes: Uint8Array,
  document: { readonly start: number; readonly end: number },
  member: JsonMember | undefined,
  key: string,
  json: string,
): Splice {
  if (member !== undefined) return { start: member.start, end: member.end, text: json };
  const inside = document.start + 1;
  const isEmpty = pastSpace(bytes, inside) === document.end - 1;
  return { start: inside, end: inside, text: `${JSON.stringify(key)}:${json}${isEmpty ? "" : ","}` };
}

/** A document that was scanned. */
export interface Scanned {
  readonly body: Uint8Array;
  readonly document: { readonly start: number; readonly end: number };
  readonly members: readonly JsonMember[];
}

/** Sets a member to a text, in all of its duplicates, so that no parser sees an old value. Inserts it if there is none. */
export function setEvery({ body, document, members }: Scanned, key: string, text: string): readonly Splice[] {
  const json = JSON.stringify(text);
  const existing = members.filter((member) => member.key === key);
  if (existing.length === 0) return [setMember(body, document, undefined, key, json)];
  return existing.map(({ start, end }) => ({ start, end, text: json }));
}

/**
 * Cuts elements out of a list, or members out of an object, of which some are kept: each with the comma that becomes superfluous. Where
 * none is kept, all of them are cut.
 */
export function removals<S extends { readonly start: number; readonly end: number }>(
  elements: readonly S[],
  kept: readonly S[],
): readonly Splice[] {
  const keeps = new Set(kept);
  const cuts: Splice[] = [];
  const first = elements.findIndex((element) => keeps.has(element));
  const [begin, last] = [elements[0], elements.at(-1)];
  if (begin === undefined || last === undefined) return cuts;
  if (first === -1) return [{ start: begin.start, end: last.end, text: "" }];
  for (const [at, element] of elements.entries()) {
    if (at === first && at > 0) cuts.push({ start: begin.start, end: element.start, text: "" });
    if (at > first && !keeps.has(element)) cuts.push({ start: elements[at - 1]!.end, end: element.end, text: "" });
  }
  return cuts;
}
