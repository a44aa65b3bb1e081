import { fileDecoder, fileKind, openingBytes } from "../codecs/file-kind.ts";
import { makeId3Skipper } from "../codecs/mpeg/id3.ts";
import { joinBytes } from "../codecs/bytes.ts";
import { UndecodableAudio, type DecodedAudio } from "../codecs/codec.ts";
import { mappedFile } from "./mapped-file.ts";

/**
 * Decodes a file of known length while it is read, and passes samples on at once. Only a container, whose index may be at its end, is
 * read completely first, into a temporary file instead of memory.
 */
export async function decodeStream(
  chunks: Iterable<Uint8Array>,
  length: number,
  onSamples: (decoded: DecodedAudio) => void,
): Promise<void> {
  const source = chunks[Symbol.iterator]();
  const opening = withoutTag(source);
  const kind = fileKind(opening, opening.length < openingBytes);
  if (kind === null) throw new UndecodableAudio("The file is not in an audio format that can be read.");
  const bytes = following(opening, source);
  if (kind === "container") return demuxed(mappedFile(bytes, length), onSamples);
  const decoder = await fileDecoder(kind);
  try {
    for (const chunk of bytes) {
      for (let at = 0; at < chunk.length; at += sliceBytes) onSamples(guarded(() => decoder.push(chunk.subarray(at, at + sliceBytes))));
    }
    onSamples(guarded(() => decoder.end()));
  } finally {
    decoder.destroy();
  }
}

/** A few bytes may decode to seconds of silence, which must fit into memory at once. */
const sliceBytes = 4096;

/** The beginning of a file, long enough to detect its format. An ID3 tag may contain megabytes of pictures and is skipped. */
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

async function demuxed(file: Uint8Array, onSamples: (decoded: DecodedAudio) => void): Promise<void> {
  const { demux } = await import("../codecs/containers/demux.ts");
  let consumerError: { readonly error: unknown } | null = null;
  try {
    await demux(file, (decoded) => {
      try {
        onSamples(decoded);
      } catch (error) {
        consumerError = { error };
        throw error;
      }
    });
  } catch (error) {
    // An error of the consumer is not the file's fault.
    throw consumerError === null ? damaged(error) : (consumerError as { readonly error: unknown }).error;
  }
}

/** Any error of a decoder means that the file could not be read. */
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

/** The codec is not installed. */
export function isMissingModule(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
}
