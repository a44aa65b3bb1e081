import { createHash } from "node:crypto";

/** A form as it came, read with as little forgiveness as possible: what a lenient upstream would overlook is seen here. */
export interface Upload {
  /** Every field but the file, in the order they came. */
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly file: UploadedFile | null;
  /** The closing boundary came, and nothing behind it. */
  readonly whole: boolean;
  /** What is not as it should be. */
  readonly oddities: readonly string[];
}

export interface UploadedFile {
  /** The name of the file, not of the field. */
  readonly name: string | null;
  readonly type: string | null;
  readonly bytes: number;
  /** Of as much of it as came. */
  readonly sha256: string;
}

/** Null where the request is no form. */
export function uploadIn(contentType: string | null, body: Uint8Array): Upload | null {
  const boundary = /^multipart\/form-data;.*boundary="?([^";]+)"?/i.exec(contentType ?? "")?.[1];
  return boundary === undefined ? null : readForm(Buffer.from(body.buffer, body.byteOffset, body.byteLength), boundary);
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function readForm(body: Buffer, boundary: string): Upload {
  const fields: (readonly [string, string])[] = [];
  const oddities: string[] = [];
  let file: UploadedFile | null = null;
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const opening = Buffer.from(`--${boundary}`);
  if (body.length >= opening.length && body.indexOf(opening) !== 0) oddities.push("something stands before the first boundary");
  let at = opening.length;
  for (;;) {
    const mark = body.toString("latin1", at, at + 2);
    if (mark === "--") {
      const rest = body.subarray(at + 2).toString("latin1");
      if (rest !== "" && rest !== "\r\n") oddities.push("something stands behind the closing boundary");
      return { fields, file, whole: true, oddities };
    }
    const headEnd = body.indexOf("\r\n\r\n", at);
    if (mark !== "\r\n" || headEnd < 0) break;
    const head = body.toString("utf8", at + 2, headEnd);
    const end = body.indexOf(delimiter, headEnd + 4);
    const content = body.subarray(headEnd + 4, end < 0 ? body.length : end);
    const { name, fileName, type } = partHead(head);
    if (name === null) oddities.push("a part has no name");
    else if (name === "file") {
      if (file !== null) oddities.push("there are two files");
      file = { name: fileName, type, bytes: content.length, sha256: sha256(content) };
    } else if (end >= 0) fields.push([name, content.toString("utf8")]);
    if (end < 0) break;
    at = end + delimiter.length;
  }
  return { fields, file, whole: false, oddities };
}

function partHead(head: string): { readonly name: string | null; readonly fileName: string | null; readonly type: string | null } {
  return {
    name: /^content-disposition: form-data;(?:.*;)? *name="([^"]*)"/im.exec(head)?.[1] ?? null,
    fileName: /^content-disposition:.*; *filename="([^"]*)"/im.exec(head)?.[1] ?? null,
    type: /^content-type: *(.+)$/im.exec(head)?.[1]?.trim() ?? null,
  };
}
