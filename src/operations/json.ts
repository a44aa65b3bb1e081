/**
 * Scans JSON in place. A request body is never parsed as a whole: one pass over its bytes checks that it is valid and within limits, and
 * records where the values of the top-level object are. A caller parses the values that it needs, and all other bytes are passed on.
 */
export function scanJson(bytes: Uint8Array, limits: JsonLimits = jsonLimits): JsonScan {
  const walk = bytes.length < copyMax ? walkOverCopy(bytes, limits) : walkOver(bytes, limits);
  const start = pastSpace(bytes, 0);
  const end = pastDocument(walk, bytes, start);
  releaseWalk(walk);
  if (end === failed) return { ok: false, reason: walk.reason, at: walk.at, message: walk.message };
  return { ok: true, kind: kindAt(bytes, start), start, end, members: membersAt(bytes, walk.noted) };
}

/** Limits on the cost of a document. A parser would take seconds for a few megabytes of `[[[[` or `{},`. */
export interface JsonLimits {
  /** Levels of nested objects and arrays. */
  readonly depthMax: number;
  /** Members of objects in the whole document. */
  readonly membersMax: number;
  /** Braces, brackets, commas, colons and scalar values in the whole document. A key counts with its colon. */
  readonly tokensMax: number;
}

export const jsonLimits: JsonLimits = { depthMax: 64, membersMax: 50_000, tokensMax: 250_000 };

export type JsonScan =
  | {
      readonly ok: true;
      readonly kind: JsonKind;
      readonly start: number;
      readonly end: number;
      /** The members of the top-level object in their order, with duplicates. Empty for any other kind. */
      readonly members: readonly JsonMember[];
    }
  | {
      readonly ok: false;
      readonly reason: "invalid" | "too_complex";
      readonly at: number;
      /** A clause for a sentence: `unexpected character at byte 12`. */
      readonly message: string;
    };

export type JsonKind = "object" | "array" | "string" | "number" | "true" | "false" | "null";

/** The position of a value in the document: its bytes are [start, end). */
export interface JsonSpan {
  readonly start: number;
  readonly end: number;
  readonly kind: JsonKind;
  /** An object or array without elements. */
  readonly empty: boolean;
}

export interface JsonMember extends JsonSpan {
  /** Decoded: `"\u006dodel"` is `model`. */
  readonly key: string;
  /** The offset of the quote that opens the key. */
  readonly keyStart: number;
}

/** The last member with a key, which counts if the key is repeated, as in `JSON.parse`. */
export function lastMember(members: readonly JsonMember[], key: string): JsonMember | undefined {
  for (let index = members.length - 1; index >= 0; index--) {
    if (members[index]!.key === key) return members[index];
  }
  return undefined;
}

/** The members of an object within a document that was scanned before. */
export function membersOf(bytes: Uint8Array, start: number, end: number): readonly JsonMember[] {
  const walk = walkOver(bytes, unlimited);
  const reached = pastObject(walk, start);
  releaseWalk(walk);
  if (reached !== end) throw notScanned("object", start, end);
  return membersAt(bytes, walk.noted);
}

/** The elements of an array within a document that was scanned before. */
export function elementsOf(bytes: Uint8Array, start: number, end: number): readonly JsonSpan[] {
  const elements: JsonSpan[] = [];
  const walk = walkOver(bytes, unlimited);
  const reached = pastArray(walk, start, elements);
  releaseWalk(walk);
  if (reached !== end) throw notScanned("array", start, end);
  return elements;
}

/**
 * Parses the value of a span. Names and small integers are read in place, because a view of the bytes would cost more than the rest of
 * reading a request.
 */
export function valueOf(bytes: Uint8Array, { start, end }: { readonly start: number; readonly end: number }): unknown {
  if (bytes[start] === quote) return keyText(bytes, start, end);
  return smallInteger(bytes, start, end) ?? JSON.parse(utf8.decode(bytes.subarray(start, end)));
}

const smallDigitsMax = 9;

function smallInteger(bytes: Uint8Array, start: number, end: number): number | null {
  if (end - start > smallDigitsMax) return null;
  let value = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at];
    if (!isDigit(byte)) return null;
    value = value * 10 + byte! - zero;
  }
  return value;
}

/** The first byte at or after an offset that is not white space. */
export function pastSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length) {
    const byte = bytes[at]!;
    if (byte > space || (byte !== space && byte !== newline && byte !== carriageReturn && byte !== tab)) break;
    at++;
  }
  return at;
}

/**
 * The state of one pass. The functions below take the offset where something should begin, and return the offset just past it; or they
 * record the problem here and return `failed`. Nothing is allocated or thrown.
 */
interface JsonWalk {
  bytes: Uint8Array;
  /** Where the document ends. */
  length: number;
  limits: JsonLimits;
  members: number;
  tokens: number;
  /** The end of the last key. */
  keyEnd: number;
  /** All bytes of all strings, combined by OR: shows cheaply whether everything is ASCII. */
  seen: number;
  /** A view of the same memory in words of four bytes, made when a long string needs it. */
  words: Int32Array | null;
  /** How many offsets of members are recorded. */
  noted: number;
  reason: "invalid" | "too_complex";
  at: number;
  message: string;
}

const failed = -1;
const unlimited: JsonLimits = { depthMax: 0x3fffffff, membersMax: 0x3fffffff, tokensMax: 0x3fffffff };

const nothing = new Uint8Array(0);

/** Shared by all passes, which are synchronous and do not nest. */
const onlyWalk: JsonWalk = {
  bytes: nothing,
  length: 0,
  limits: unlimited,
  members: 0,
  tokens: 0,
  keyEnd: 0,
  seen: 0,
  words: null,
  noted: 0,
  reason: "invalid",
  at: 0,
  message: "",
};

function walkOver(bytes: Uint8Array, limits: JsonLimits): JsonWalk {
  const walk = onlyWalk;
  walk.bytes = bytes;
  walk.length = bytes.length;
  walk.limits = limits;
  walk.members = 0;
  walk.tokens = 0;
  walk.keyEnd = 0;
  walk.seen = 0;
  walk.words = null;
  walk.noted = 0;
  return walk;
}

/** Drops the references to the document. */
function releaseWalk(walk: JsonWalk): void {
  walk.bytes = nothing;
  walk.words = null;
}

/** A copy of a small document, in memory that can also be read in words, is faster to scan. */
function walkOverCopy(bytes: Uint8Array, limits: JsonLimits): JsonWalk {
  copy.set(bytes);
  // This byte is valid nowhere in a document, so nothing after the end is read.
  copy[bytes.length] = 0;
  const walk = walkOver(copy, limits);
  walk.length = bytes.length;
  walk.words = copyWords;
  return walk;
}

const copyMax = 64 * 1024;
const copy = new Uint8Array(copyMax);
const copyWords = new Int32Array(copy.buffer);
/** Four for each member of the last object: the start and end of its key and of its value. */
let offsets = new Int32Array(256);

/** Returns the end of the document's value, which only white space may follow. `source` has the same bytes. */
function pastDocument(walk: JsonWalk, source: Uint8Array, start: number): number {
  const { bytes } = walk;
  const end = bytes[start] === openBrace ? pastObject(walk, start) : pastValue(walk, start, 0);
  if (end === failed) return failed;
  const rest = pastSpace(bytes, end);
  if (rest < walk.length) return unexpected(walk, rest);
  // Outside strings everything is ASCII, so only strings need to be checked.
  if ((walk.seen & highBits) === 0) return end;
  const malformed = malformedUtf8(source);
  return malformed === none ? end : fail(walk, "invalid", malformed, `malformed UTF-8 at byte ${malformed}`);
}

/** Records the offsets of each member. */
function pastObject(walk: JsonWalk, open: number): number {
  const { bytes } = walk;
  if (bytes[open] !== openBrace) return unexpected(walk, open);
  if (walk.limits.depthMax < 1) return tooDeep(walk, open);
  if (++walk.tokens > walk.limits.tokensMax) return tooManyTokens(walk, open);
  let at = pastSpace(bytes, open + 1);
  if (bytes[at] === closeBrace) return pastClose(walk, at);
  for (;;) {
    const keyStart = at;
    const start = pastKey(walk, keyStart);
    if (start === failed) return failed;
    const { keyEnd } = walk;
    const end = pastValue(walk, start, 1);
    if (end === failed) return failed;
    note(walk, keyStart, keyEnd, start, end);
    at = pastSpace(bytes, end);
    if (bytes[at] === closeBrace) return pastClose(walk, at);
    if (bytes[at] !== comma) return unexpected(walk, at);
    walk.tokens++;
    at = pastSpace(bytes, at + 1);
  }
}

function note(walk: JsonWalk, keyStart: number, keyEnd: number, start: number, end: number): void {
  const at = walk.noted;
  if (at === offsets.length) offsets = grownOffsets(offsets);
  offsets[at] = keyStart;
  offsets[at + 1] = keyEnd;
  offsets[at + 2] = start;
  offsets[at + 3] = end;
  walk.noted = at + 4;
}

function grownOffsets(full: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(full.length * 2);
  larger.set(full);
  return larger;
}

function pastArray(walk: JsonWalk, open: number, elements: JsonSpan[]): number {
  const { bytes } = walk;
  if (bytes[open] !== openBracket) return unexpected(walk, open);
  let start = pastSpace(bytes, open + 1);
  if (bytes[start] === closeBracket) return start + 1;
  for (;;) {
    const end = pastValue(walk, start, 1);
    if (end === failed) return failed;
    const kind = kindAt(bytes, start);
    elements.push({ start, end, kind, empty: isEmpty(bytes, start, end, kind) });
    const next = pastSpace(bytes, end);
    if (bytes[next] === closeBracket) return next + 1;
    if (bytes[next] !== comma) return unexpected(walk, next);
    start = pastSpace(bytes, next + 1);
  }
}

/** Any value with its nested values. It does not recurse: the kinds of the enclosing containers are kept in `enclosing`. */
function pastValue(walk: JsonWalk, from: number, depthOutside: number): number {
  const { bytes } = walk;
  const { depthMax, tokensMax } = walk.limits;
  let at = from;
  let depth = 0;
  let inObject = false;
  value: for (;;) {
    if (++walk.tokens > tokensMax) return tooManyTokens(walk, at);
    const first = bytes[at];
    if (first === quote) at = pastString(walk, at);
    else if (first === openBrace || first === openBracket) {
      if (depthOutside + depth >= depthMax) return tooDeep(walk, at);
      if (depth === enclosing.length) enclosing = grown(enclosing);
      enclosing[depth++] = inObject ? 1 : 0;
      inObject = first === openBrace;
      at = pastSpace(bytes, at + 1);
      if (bytes[at] !== (inObject ? closeBrace : closeBracket)) {
        if (inObject) at = pastKey(walk, at);
        if (at === failed) return failed;
        continue;
      }
      at = pastClose(walk, at);
      inObject = enclosing[--depth] === 1;
    } else at = first === minus || isDigit(first) ? pastNumber(walk, at) : pastLiteral(walk, at);

    // A value is complete, and perhaps the containers around it.
    for (;;) {
      if (at === failed || depth === 0) return at;
      at = pastSpace(bytes, at);
      const next = bytes[at];
      if (next === comma) {
        walk.tokens++;
        at = pastSpace(bytes, at + 1);
        if (inObject) at = pastKey(walk, at);
        if (at === failed) return failed;
        continue value;
      }
      if (next !== (inObject ? closeBrace : closeBracket)) return unexpected(walk, at);
      at = pastClose(walk, at);
      inObject = enclosing[--depth] === 1;
    }
  }
}

/** Whether each enclosing container is an object. Shared by all passes. */
let enclosing = new Uint8Array(64);

function grown(stack: Uint8Array): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(stack.length * 2);
  larger.set(stack);
  return larger;
}

function pastClose(walk: JsonWalk, at: number): number {
  return ++walk.tokens > walk.limits.tokensMax ? tooManyTokens(walk, at) : at + 1;
}

/** A key and its colon, up to the first byte of the value. */
function pastKey(walk: JsonWalk, open: number): number {
  const { bytes } = walk;
  if (bytes[open] !== quote) return unexpected(walk, open);
  if (++walk.members > walk.limits.membersMax) return tooManyMembers(walk, open);
  const end = pastString(walk, open);
  if (end === failed) return failed;
  walk.keyEnd = end;
  const at = pastSpace(bytes, end);
  if (bytes[at] !== colon) return unexpected(walk, at);
  walk.tokens++;
  return pastSpace(bytes, at + 1);
}

/** The fast path: most strings are short. */
function pastString(walk: JsonWalk, open: number): number {
  const { bytes } = walk;
  const near = open + shortMax;
  let at = open + 1;
  let seen = 0;
  while (at < near) {
    const byte = bytes[at]!;
    if (stops[byte] !== 0) break;
    seen |= byte;
    at++;
  }
  walk.seen |= seen;
  return bytes[at] === quote ? at + 1 : pastLongString(walk, at);
}

const shortMax = 24;

function pastLongString(walk: JsonWalk, from: number): number {
  const { bytes } = walk;
  let at = from;
  for (;;) {
    // Plain bytes and simple escapes one by one up to the border of a word, then whole words.
    const border = ((bytes.byteOffset + at + (walk.words === null ? wordsAfter : wordsSoon)) & ~3) - bytes.byteOffset;
    let seen = 0;
    while (at < border) {
      const byte = bytes[at]!;
      if (stops[byte] === 0) at++;
      else if (byte === backslash && escapables[bytes[at + 1]!] === 1) at += 2;
      else break;
      seen |= byte;
    }
    walk.seen |= seen;
    if (at === border) at = pastWords(walk, at);
    if (at >= border) continue;
    const stop = bytes[at];
    if (stop === quote) return at + 1;
    if (stop !== backslash) return unexpected(walk, at);
    at = pastEscape(walk, at);
    if (at === failed) return failed;
  }
}

/** Making a view costs as much as reading a few thousand bytes one by one. */
const wordsAfter = 2048;
/** With an existing view. Reading by words stops up to eight bytes before a special character. */
const wordsSoon = 12;

/**
 * Skips the plain part of a long string, eight bytes at a time, and stops at most eight bytes before a quote, a backslash or a control
 * character. Nearly all of a large image in base64 is skipped here.
 */
function pastWords(walk: JsonWalk, from: number): number {
  const { bytes } = walk;
  const words = (walk.words ??= new Int32Array(bytes.buffer, 0, bytes.buffer.byteLength >>> 2));
  const last = ((bytes.byteOffset + walk.length) >>> 2) - 1;
  let index = (bytes.byteOffset + from) >>> 2;
  let seen = 0;
  while (index < last) {
    const left = words[index]!;
    const right = words[index + 1]!;
    if (((stopsIn(left) | stopsIn(right)) & highBits) !== 0) break;
    seen |= left | right;
    index += 2;
  }
  walk.seen |= seen;
  return index * 4 - bytes.byteOffset;
}

/**
 * Finds special characters among the four bytes of a word, as their high bits. Subtracting n from a byte below 0x80 sets its high bit
 * only if the byte is less than n: 0x20 finds control characters, and 1 finds bytes that the XOR made 0. A borrow only affects the byte
 * next to one that was found.
 */
function stopsIn(word: number): number {
  return ((word - 0x20202020) | ((word ^ 0x22222222) - 0x01010101) | ((word ^ 0x5c5c5c5c) - 0x01010101)) & ~word;
}

const highBits = 0x80808080 | 0;

/** An escaped surrogate may be unpaired, by the grammar and in `JSON.parse`. */
function pastEscape(walk: JsonWalk, start: number): number {
  const { bytes } = walk;
  if (start + 1 >= walk.length) return unexpected(walk, start + 1);
  if (bytes[start + 1] !== lowerU) return fail(walk, "invalid", start, `unknown escape at byte ${start}`);
  for (let at = start + 2; at < start + 6; at++) {
    if (hexDigits[bytes[at]!] !== 1) return unexpected(walk, at);
  }
  return start + 6;
}

/** https://www.rfc-editor.org/rfc/rfc8259#section-6 */
function pastNumber(walk: JsonWalk, start: number): number {
  const { bytes } = walk;
  let at = bytes[start] === minus ? start + 1 : start;
  if (!isDigit(bytes[at])) return unexpected(walk, at);
  at = bytes[at] === zero ? at + 1 : pastDigits(bytes, at);
  if (bytes[at] === point) {
    if (!isDigit(bytes[at + 1])) return unexpected(walk, at + 1);
    at = pastDigits(bytes, at + 1);
  }
  if (bytes[at] === lowerE || bytes[at] === upperE) {
    at++;
    if (bytes[at] === plus || bytes[at] === minus) at++;
    if (!isDigit(bytes[at])) return unexpected(walk, at);
    at = pastDigits(bytes, at);
  }
  return at;
}

function pastDigits(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length) {
    const byte = bytes[at]!;
    if (byte < zero || byte > nine) break;
    at++;
  }
  return at;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= zero && byte <= nine;
}

function pastLiteral(walk: JsonWalk, start: number): number {
  const { bytes } = walk;
  const literal = literalAt(bytes, start);
  if (literal === undefined) return unexpected(walk, start);
  for (let index = 1; index < literal.length; index++) {
    if (bytes[start + index] !== literal.charCodeAt(index)) return unexpected(walk, start + index);
  }
  return start + literal.length;
}

function literalAt(bytes: Uint8Array, start: number): "true" | "false" | "null" | undefined {
  switch (bytes[start]) {
    case 0x74:
      return "true";
    case 0x66:
      return "false";
    case 0x6e:
      return "null";
    default:
      return undefined;
  }
}

/** Made after the document has been validated, so that a rejected one costs only the scan. */
function membersAt(bytes: Uint8Array, noted: number): readonly JsonMember[] {
  const members: JsonMember[] = [];
  for (let index = 0; index < noted; index += 4) {
    const keyStart = offsets[index]!;
    const key = keyText(bytes, keyStart, offsets[index + 1]!);
    const start = offsets[index + 2]!;
    const end = offsets[index + 3]!;
    const kind = kindAt(bytes, start);
    members.push({ key, keyStart, start, end, kind, empty: isEmpty(bytes, start, end, kind) });
  }
  return members;
}

/** The kind of a valid value, by its first byte. */
function kindAt(bytes: Uint8Array, start: number): JsonKind {
  switch (bytes[start]) {
    case openBrace:
      return "object";
    case openBracket:
      return "array";
    case quote:
      return "string";
    default:
      return literalAt(bytes, start) ?? "number";
  }
}

function isEmpty(bytes: Uint8Array, start: number, end: number, kind: JsonKind): boolean {
  return (kind === "object" || kind === "array") && pastSpace(bytes, start + 1) === end - 1;
}

/**
 * The text of a key; its span includes the quotes. Clients send the same few keys all the time, so short ones are cached: comparing one
 * takes a fraction of the time of decoding it.
 */
function keyText(bytes: Uint8Array, open: number, end: number): string {
  const length = end - open - 2;
  if (length === 0) return "";
  if (length > keptLengthMax) return decodedKey(bytes, open, end);
  const slot = (length * 11 + bytes[open + 1]! * 7 + bytes[open + 2]! * 31 + bytes[end - 2]! * 5) % keptMax;
  const known = kept[slot]!;
  if (spells(bytes, open + 1, length, known)) return known;

  const key = decodedKey(bytes, open, end);
  // Only keys without escapes and in ASCII are cached.
  if (spells(bytes, open + 1, length, key)) kept[slot] = key;
  return key;
}

const keptLengthMax = 32;
const keptMax = 256;
const kept: string[] = Array.from({ length: keptMax }, () => "");

function spells(bytes: Uint8Array, start: number, length: number, text: string): boolean {
  if (text.length !== length) return false;
  for (let index = 0; index < length; index++) {
    if (bytes[start + index] !== text.charCodeAt(index)) return false;
  }
  return true;
}

function decodedKey(bytes: Uint8Array, open: number, end: number): string {
  const text = utf8.decode(bytes.subarray(open, end));
  return text.includes("\\") ? (JSON.parse(text) as string) : text.slice(1, -1);
}

/** The offset of the first byte that is not valid UTF-8, or `none`. */
function malformedUtf8(bytes: Uint8Array): number {
  let start = 0;
  while (start < bytes.length) {
    const end = characterBorder(bytes, start + sliceMax);
    const slice = bytes.subarray(start, end);
    if (!isUtf8(slice)) return start + firstDifference(slice, new TextEncoder().encode(utf8.decode(slice)));
    start = end;
  }
  return none;
}

const none = -1;
/** Decoding is the only native check of UTF-8, and makes a string. Small slices keep that string in the CPU cache. */
const sliceMax = 65_536;

/** Avoids cutting a slice inside a character. Four continuation bytes in a row are never valid. */
function characterBorder(bytes: Uint8Array, wanted: number): number {
  if (wanted >= bytes.length) return bytes.length;
  let border = wanted;
  while (border > wanted - 3 && (bytes[border]! & 0xc0) === 0x80) border--;
  return border;
}

function isUtf8(slice: Uint8Array): boolean {
  try {
    strictUtf8.decode(slice);
    return true;
  } catch {
    return false;
  }
}

function firstDifference(left: Uint8Array, right: Uint8Array): number {
  let at = 0;
  while (left[at] === right[at]) at++;
  return at;
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const strictUtf8 = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

function unexpected(walk: JsonWalk, at: number): number {
  if (at >= walk.length) return fail(walk, "invalid", at, `unexpected end at byte ${at}`);
  const [first, second, third] = walk.bytes;
  const isMark = at === 0 && first === 0xef && second === 0xbb && third === 0xbf;
  if (isMark) return fail(walk, "invalid", at, "unexpected byte order mark at byte 0");
  return fail(walk, "invalid", at, `unexpected character at byte ${at}`);
}

function tooDeep(walk: JsonWalk, at: number): number {
  return fail(walk, "too_complex", at, `nested deeper than ${walk.limits.depthMax} levels`);
}

function tooManyMembers(walk: JsonWalk, at: number): number {
  return fail(walk, "too_complex", at, `more than ${walk.limits.membersMax} object members`);
}

function tooManyTokens(walk: JsonWalk, at: number): number {
  return fail(walk, "too_complex", at, `more than ${walk.limits.tokensMax} tokens`);
}

function fail(walk: JsonWalk, reason: "invalid" | "too_complex", at: number, message: string): number {
  walk.reason = reason;
  walk.at = at;
  walk.message = message;
  return failed;
}

function notScanned(kind: JsonKind, start: number, end: number): Error {
  return new Error(`bytes ${start} to ${end} were taken for an ${kind} of a scanned document`);
}

const tab = 0x09;
const newline = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const quote = 0x22;
const plus = 0x2b;
const comma = 0x2c;
const minus = 0x2d;
const point = 0x2e;
const zero = 0x30;
const nine = 0x39;
const colon = 0x3a;
const upperE = 0x45;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const lowerE = 0x65;
const lowerU = 0x75;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** The bytes that end the plain part of a string. */
const stops = marked('"\\' + String.fromCharCode(...Array(0x20).keys()));
const escapables = marked('"\\/bfnrt');
const hexDigits = marked("0123456789abcdefABCDEF");

/** A table with 1 for the given characters and 0 for all others. */
function marked(characters: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const character of characters) table[character.charCodeAt(0)] = 1;
  return table;
}

/** An untrusted JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
