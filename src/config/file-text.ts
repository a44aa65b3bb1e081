import { createReadStream } from "node:fs";
import type { Problem } from "./findings/problem.ts";

/** Some six thousand channels, for which the parser takes two seconds at start. What has no end, such as a device, is not read whole. */
const bytesMax = 1024 * 1024;

/** The text of a file or of a pipe. It is read beside the event loop: a slow disk, or a share that is away, keeps no calls waiting. */
export async function readFileText(path: string): Promise<string | Problem> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of createReadStream(path) as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > bytesMax) return wrong("the file is larger than 1 MiB", larger);
      pieces.push(piece);
    }
  } catch (error) {
    return unreadable((error as { code?: string }).code ?? "unknown reason");
  }
  return Buffer.concat(pieces, bytes).toString("utf8");
}

const larger =
  "check that it is the right file; thousands of keys belong in the store (`sluice keys create`), and thousands of channels too (the admin API)";

function unreadable(code: string): Problem {
  switch (code) {
    case "ENOENT":
      return wrong("there is no such file (ENOENT)", "check its path; examples/sluice.yaml is one to begin with");
    case "EISDIR":
      return wrong("this is a directory (EISDIR)", "name the file inside of it");
    case "EACCES":
      return wrong("this user may not read the file (EACCES)", "give it the right to, or start as its owner");
    default:
      return wrong(`the file cannot be read (${code})`, "check its path and permissions");
  }
}

function wrong(reason: string, fix: string): Problem {
  return { line: null, path: "", reason, fix };
}
