import { join } from "node:path";
import list from "./recordings.json";

/** An answer that a provider gave, as somebody else recorded it. What must be made of it was looked up in the recording. */
export interface Recording {
  readonly dialect: string;
  /** In the repository that it is from. `.chunks.txt` has one event of a stream in each line, `.sse` is a stream, `.json` whole. */
  readonly path: string;
  readonly sha256: string;
  /** Why it ended; or the kind of failure that it is. */
  readonly finish?: string;
  readonly fails?: string;
  readonly calls: number;
  /** The characters of its text. */
  readonly text: number;
}

export const recordings: readonly Recording[] = list.files;

/** Where a recording is on this machine, once it was downloaded. */
export function fileOf({ sha256 }: Recording): string {
  return join(import.meta.dir, "files", sha256);
}

export function addressOf({ path }: Recording): string {
  return `https://raw.githubusercontent.com/${list.repository}/${list.commit}/${path}`;
}
