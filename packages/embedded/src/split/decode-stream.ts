import { fileDecoder, fileKind, openingBytes } from "../codecs/file-kind.ts";
import { makeId3Skipper } from "../codecs/mpeg/id3.ts";
import { joinBytes } from "../codecs/bytes.ts";
import { UndecodableAudio, type DecodedAudio } from "../codecs/codec.ts";
import { mappedFile } from "./mapped-file.ts";

/**
 * Decodes a file of a known length as it comes, and gives its samples as they are there. Only a container, whose table of
 * contents may stand at its end, is read to the end first; it then lies on the disk and not in memory.
 */
export async function decodeStream(chunks: Iterable<Uint8Array>, length: number, give: (decoded: DecodedAudio) => void): Promise<void> {
  const source = chunks[Symbol.iterator]();
  const opening = withoutTag(source);
  const kind = fileKind(opening, opening.length < openingBytes);
  if (kind === null) throw new UndecodableAudio("The file is not in an audio format that can be read.");
  const bytes = following(opening, source);
  if (kind === "container") return demuxed(mappedFile(bytes, length), give);
  const decoder = await fileDecoder(kind);
  try {
    for (const chunk of bytes) {
      for (let at = 0; at < chunk.length; at += sliceBytes) give(guarded(() => decoder.push(chunk.subarray(at, at + sliceBytes))));
    }
    give(guarded(() => decoder.end()));
  } finally {
    decoder.destroy();
  }
}

/** A few bytes may stand for seconds of silence, and what they become must fit into memory at once. */
const sliceBytes = 4096;

/** The beginning of a file, long enough to tell what it is. A tag in front may hold megabytes of pictures, and is passed over. */
function withoutTag(source: Iterator<Uint8Array>): Uint8Array {
  const skipTag = makeId3Skipper();
  const read: Uint8Array[] = [];
  for (let length = 0; length < openingBytes;) {
    const { value, done } = source.next();
    if (done === true) break;
    const bytes = skipTag(value);
    read.push(bytes);
    length += bytes.length;
  }
  return joinBytes(read);
}

function* following(first: Uint8Array, source: Iterator<Uint8Array>): Generator<Uint8Array> {
  yield first;
  for (let next = source.next(); next.done !== true; next = source.next()) yield next.value;
}

async function demuxed(file: Uint8Array, give: (decoded: DecodedAudio) => void): Promise<void> {
  const { demux } = await import("../codecs/containers/demux.ts");
  let taken: { readonly error: unknown } | null = null;
  try {
    await demux(file, (decoded) => {
      try {
        give(decoded);
      } catch (error) {
        taken = { error };
        throw error;
      }
    });
  } catch (error) {
    // What went wrong with the samples after they were given is not the file's fault.
    throw taken === null ? damaged(error) : (taken as { readonly error: unknown }).error;
  }
}

/** Whatever a decoder stumbles over in a hostile file, it is the file that could not be read. */
function guarded(run: () => DecodedAudio): DecodedAudio {
  try {
    return run();
  } catch (error) {
    throw damaged(error);
  }
}

function damaged(error: unknown): unknown {
  if (error instanceof UndecodableAudio || isMissingModule(error)) return error;
  return new UndecodableAudio("The audio is damaged and could not be read.", { cause: error });
}

/** A codec that did not come with this installation. */
export function isMissingModule(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
}
