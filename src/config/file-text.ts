import { isUtf8 } from "node:buffer";
import { createReadStream } from "node:fs";
import type { Problem } from "./findings/problem.ts";

/** About six thousand channels, for which the parser takes two seconds. The bound also ends the reading of a device that has no end. */
const bytesMax = 1024 * 1024;

/** Reads a file or a pipe asynchronously, so that a slow disk or an unreachable network share does not delay calls. */
export async function readFileText(path: string): Promise<string | Problem> {
  const bytes = await readFileBytes(path);
  return "reason" in bytes ? bytes : bytes.toString("utf8");
}

/** The same for a file whose words are stored: what is in another encoding must not be kept as question marks. */
export async function readUtf8Text(path: string): Promise<string | Problem> {
  const bytes = await readFileBytes(path);
  if ("reason" in bytes) return bytes;
  if (isUtf8(bytes)) return bytes.toString("utf8");
  return { line: firstForeignLine(bytes), path: "", reason: "this is not UTF-8 text", fix: "save the file in the encoding UTF-8" };
}

function firstForeignLine(bytes: Buffer): number {
  let line = 1;
  for (let start = 0; start < bytes.length; line += 1) {
    const end = bytes.indexOf("\n", start);
    if (end === -1 || !isUtf8(bytes.subarray(start, end))) break;
    start = end + 1;
  }
  return line;
}

async function readFileBytes(path: string): Promise<Buffer | Problem> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of createReadStream(path) as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > bytesMax) return fileProblem("the file is larger than 1 MiB", tooLargeFix);
      pieces.push(piece);
    }
  } catch (error) {
    return unreadable((error as { code?: string }).code ?? "unknown reason");
  }
  return Buffer.concat(pieces, bytes);
}

const tooLargeFix =
  "check that it is the right file; keep thousands of keys in the store (`sluice keys create`), and thousands of channels too (admin API)";

function unreadable(code: string): Problem {
  switch (code) {
    case "ENOENT":
      return fileProblem("there is no such file (ENOENT)", "check the path; examples/sluice.yaml is a file to begin with");
    case "EISDIR":
      return fileProblem("this is a directory (EISDIR)", "give the path of the file inside it");
    case "EACCES":
      return fileProblem("there is no permission to read the file (EACCES)", "change its permissions, or start as its owner");
    default:
      return fileProblem(`the file cannot be read (${code})`, "check its path and permissions");
  }
}

function fileProblem(reason: string, fix: string): Problem {
  return { line: null, path: "", reason, fix };
}
