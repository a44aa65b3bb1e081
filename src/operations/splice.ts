import { type JsonMember, pastSpace } from "./json.ts";

/** Replaces the bytes [start, end) by a text. Where both are the same offset, the text is inserted there. */
export interface Splice {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/**
 * The document with its splices made, in one copy; every byte outside of them is as it was. Without splices it is the very
 * same array. Splices may come in any order, and insertions at one offset keep theirs; overlapping ones are a bug.
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
  return joined(pieces);
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
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
 * Gives a member of the object at `document` another value, or gives the object that member as its first. Into an empty
 * object there can be one insertion only, for it brings no comma.
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

/** Gives a member another text wherever it stands, so that no reader sees the old one, or gives the document that member. */
export function setEvery({ body, document, members }: Scanned, key: string, text: string): readonly Splice[] {
  const json = JSON.stringify(text);
  const standing = members.filter((member) => member.key === key);
  if (standing.length === 0) return [setMember(body, document, undefined, key, json)];
  return standing.map(({ start, end }) => ({ start, end, text: json }));
}
