import type { Failure } from "../../operations/failure.ts";
import { readExtendedValue, readHeaderValue } from "./header-value.ts";
import { encodedPart, nameTooLong, partMalformed, partUnnamed } from "./form-errors.ts";

/** The headers of one part of a form (RFC 7578, 4.2). */
export interface FormPart {
  readonly name: string;
  /** As it was sent, which may be a path, or empty; null if the part has none. */
  readonly fileName: string | null;
  readonly type: string | null;
}

export function readPart(block: Uint8Array): FormPart | Failure {
  const headers = headersIn(textOf(block));
  if (headers === null) return partMalformed;
  const header = headers.get("content-disposition");
  if (header === undefined) return partUnnamed;
  const disposition = readHeaderValue(header);
  if (disposition === null || disposition.value !== "form-data") return partMalformed;
  const name = named(disposition.parameters, "name");
  if (name === null || name === "") return partUnnamed;
  if (hasControls(name)) return partMalformed;
  if (Buffer.byteLength(name) > nameBytesMax) return nameTooLong;
  const encoding = headers.get("content-transfer-encoding");
  if (encoding !== undefined && !["binary", "8bit", "7bit"].includes(encoding.toLowerCase())) return encodedPart(name, encoding);
  return { name, fileName: named(disposition.parameters, "filename"), type: typeOf(headers.get("content-type")) };
}

const nameBytesMax = 200;

/** By lower-case name; null if one is malformed or repeated. */
function headersIn(block: string): ReadonlyMap<string, string> | null {
  const headers = new Map<string, string>();
  if (block === "") return headers;
  // A line that begins with a blank continues the one before it.
  for (const line of block.replace(/\r\n[ \t]+/g, " ").split("\r\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(colon, 0)).toLowerCase();
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name) || hasControls(line.replaceAll("\t", " ")) || headers.has(name)) return null;
    headers.set(name, line.slice(colon + 1).trim());
  }
  return headers;
}

/** The extended parameter (RFC 8187) is more exact than the plain one, which clients add for parsers that do not know it. */
function named(parameters: ReadonlyMap<string, string>, name: string): string | null {
  const extended = readExtendedValue(parameters.get(`${name}*`) ?? "");
  const plain = parameters.get(name);
  // Browsers escape only these three (HTML standard, multipart/form-data), as do most clients: any other percent sign belongs to
  // the name.
  return extended ?? plain?.replace(/%(22|0a|0d)/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))) ?? null;
}

function typeOf(header: string | undefined): string | null {
  return header !== undefined && /^[\x20-\x7e]{1,255}$/.test(header) ? header : null;
}

function textOf(block: Uint8Array): string {
  try {
    return utf8.decode(block);
  } catch {
    return latin1.decode(block);
  }
}

function hasControls(text: string): boolean {
  return /\p{Cc}/u.test(text);
}

const utf8 = new TextDecoder("utf-8", { fatal: true });
const latin1 = new TextDecoder("latin1");
