/** A header value such as `form-data; name="file"; filename="a.wav"`. */
export interface HeaderValue {
  /** The part before the first semicolon, in lower case. */
  readonly value: string;
  /** By lower-case name. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** Null if the value is malformed or ambiguous: two parsers could read it differently. */
export function readHeaderValue(text: string): HeaderValue | null {
  const semicolon = text.indexOf(";");
  if (semicolon === -1) return { value: text.trim().toLowerCase(), parameters: new Map() };
  const parameters = new Map<string, string>();
  let at = semicolon;
  while (at < text.length) {
    const found = parameterAt(text, at + 1);
    if (found === null) return null;
    at = found.end;
    if (found.name === "") continue;
    if (parameters.has(found.name)) return null;
    parameters.set(found.name, found.value);
  }
  return { value: text.slice(0, semicolon).trim().toLowerCase(), parameters };
}

interface HeaderParameter {
  readonly name: string;
  readonly value: string;
  /** The position of the next semicolon, or the end of the text. */
  readonly end: number;
}

/** An empty parameter, as after a final semicolon, has an empty name. */
function parameterAt(text: string, from: number): HeaderParameter | null {
  const equals = text.indexOf("=", from);
  const semicolon = endOfToken(text, from);
  if (equals === -1 || equals > semicolon)
    return text.slice(from, semicolon).trim() === "" ? { name: "", value: "", end: semicolon } : null;
  const name = text.slice(from, equals).trim().toLowerCase();
  if (name === "") return null;
  let start = equals + 1;
  while (text[start] === " " || text[start] === "\t") start += 1;
  if (text[start] !== '"') return { name, value: text.slice(start, semicolon).trim(), end: semicolon };
  const quoted = quotedAt(text, start + 1);
  return quoted === null ? null : { name, ...quoted };
}

function endOfToken(text: string, from: number): number {
  const semicolon = text.indexOf(";", from);
  return semicolon === -1 ? text.length : semicolon;
}

/**
 * A backslash escapes only quotes and backslashes, because some clients send unescaped Windows paths. Others send unescaped
 * quotes in a name, so a quote ends the string only where the parameter can end.
 */
function quotedAt(text: string, from: number): Omit<HeaderParameter, "name"> | null {
  let value = "";
  for (let at = from; at < text.length; at += 1) {
    const character = text[at] ?? "";
    const next = text[at + 1] ?? "";
    if (character === "\\" && (next === '"' || next === "\\")) {
      value += next;
      at += 1;
    } else if (character === '"') {
      let end = at + 1;
      while (text[end] === " " || text[end] === "\t") end += 1;
      if (end === text.length || text[end] === ";") return { value, end };
      value += character;
    } else {
      value += character;
    }
  }
  return null;
}

/** Decodes a value such as `utf-8''na%C3%AFve.wav` (RFC 8187); null if it is malformed. */
export function readExtendedValue(text: string): string | null {
  const [charset = "", , encoded, ...more] = text.split("'");
  if (encoded === undefined || more.length > 0) return null;
  const decoder = decoders.get(charset.toLowerCase());
  if (decoder === undefined || /%(?![0-9a-f]{2})/i.test(encoded)) return null;
  const bytes = Buffer.from(
    encoded.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1",
  );
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

const decoders: ReadonlyMap<string, TextDecoder> = new Map([
  ["utf-8", new TextDecoder("utf-8", { fatal: true })],
  ["iso-8859-1", new TextDecoder("latin1")],
]);
