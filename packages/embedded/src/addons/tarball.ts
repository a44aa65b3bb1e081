/** A regular file in a tar archive. Its contents must be read before the next entry, or are skipped. */
export interface TarEntry {
  /** As it is in the archive. It must never be used as a path. */
  readonly name: string;
  readonly bytes: number;
  contents(): AsyncGenerator<Uint8Array, void>;
}

/** The archive is invalid, or larger than allowed. */
export class BrokenArchive extends Error {
  override readonly name = "BrokenArchive";
}

/** Streams the regular files of a gzipped tar archive. */
export async function* tarEntries(archive: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<TarEntry, void> {
  const source = readAhead(inflated(archive));
  let longName: string | null = null;
  let longBytes: number | null = null;
  for (;;) {
    const head = await source.exactly(blockBytes);
    if (head === null) throw new BrokenArchive("the archive has no end");
    if (head.every((byte) => byte === 0)) return;
    const { name, bytes, type } = readHead(head);
    if (type === "x" || type === "L") {
      if (bytes > extraBytesMax) throw new BrokenArchive("a name in the archive is too long");
      const extra = await source.exactly(bytes);
      if (extra === null) throw new BrokenArchive("the archive breaks off");
      await source.skip(padding(bytes));
      if (type === "L") longName = cString(extra);
      else ({ path: longName = longName, size: longBytes = longBytes } = paxFields(extra));
      continue;
    }
    const entryBytes = longBytes ?? bytes;
    let left = entryBytes;
    async function* contents(): AsyncGenerator<Uint8Array, void> {
      while (left > 0) {
        const chunk = await source.some(left);
        if (chunk === null) throw new BrokenArchive("the archive breaks off");
        left -= chunk.length;
        yield chunk;
      }
    }
    if (type === "0" || type === "\0") yield { name: longName ?? name, bytes: entryBytes, contents };
    await source.skip(left + padding(entryBytes));
    longName = null;
    longBytes = null;
  }
}

const blockBytes = 512;
/** The longest extended header (PAX or GNU long name). */
const extraBytesMax = 64 * 1024;
/** More than any of our archives, as a limit for decompression bombs. */
const inflatedBytesMax = 2 * 1024 ** 3;

async function* inflated(archive: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  try {
    for await (const chunk of archive.pipeThrough(new DecompressionStream("gzip"))) {
      bytes += chunk.length;
      if (bytes > inflatedBytesMax) throw new BrokenArchive("the archive unpacks to more than it may");
      yield chunk;
    }
  } catch (error) {
    throw error instanceof BrokenArchive ? error : new BrokenArchive(error instanceof Error ? error.message : String(error));
  }
}

function readHead(head: Uint8Array): { readonly name: string; readonly bytes: number; readonly type: string } {
  const sum = octal(head.subarray(148, 156));
  // The checksum is computed with spaces in its own field.
  const actual = head.reduce((total, byte, index) => total + (index >= 148 && index < 156 ? 32 : byte), 0);
  if (sum !== actual) throw new BrokenArchive("the head of an entry is damaged");
  const prefix = cString(head.subarray(345, 500));
  const name = cString(head.subarray(0, 100));
  const isUstar = cString(head.subarray(257, 262)) === "ustar";
  const bytes = octal(head.subarray(124, 136));
  if (bytes === null) throw new BrokenArchive("the head of an entry has no size");
  return { name: isUstar && prefix !== "" ? `${prefix}/${name}` : name, bytes, type: String.fromCharCode(head[156] ?? 0) };
}

function octal(field: Uint8Array): number | null {
  const digits = cString(field).trim();
  return /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : null;
}

function cString(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}

/** PAX records: `LENGTH NAME=VALUE\n`. */
function paxFields(extra: Uint8Array): { path?: string; size?: number } {
  const fields: { path?: string; size?: number } = {};
  for (let rest = extra; rest.length > 0;) {
    const length = Number.parseInt(new TextDecoder().decode(rest.subarray(0, 8)), 10);
    if (!(length > 0 && length <= rest.length)) break;
    const [, name, value] = /^\d+ ([^=]+)=([\s\S]*)\n$/.exec(new TextDecoder().decode(rest.subarray(0, length))) ?? [];
    if (name === "path" && value !== undefined) fields.path = value;
    if (name === "size" && /^\d{1,15}$/.test(value ?? "")) fields.size = Number(value);
    rest = rest.subarray(length);
  }
  return fields;
}

/** Contents are padded to whole blocks. */
function padding(bytes: number): number {
  return (blockBytes - (bytes % blockBytes)) % blockBytes;
}

/** Reads chunks of any size in the sizes that the caller needs. */
function readAhead(chunks: AsyncGenerator<Uint8Array, void>): {
  /** At least one byte and at most `bytesMax`; `null` at the end. */
  some(bytesMax: number): Promise<Uint8Array | null>;
  exactly(bytes: number): Promise<Uint8Array | null>;
  skip(bytes: number): Promise<void>;
} {
  let held: Uint8Array = new Uint8Array();
  const some = async (bytesMax: number): Promise<Uint8Array | null> => {
    while (held.length === 0) {
      const { value, done } = await chunks.next();
      if (done === true) return null;
      held = value;
    }
    const given = held.subarray(0, bytesMax);
    held = held.subarray(given.length);
    return given;
  };
  const exactly = async (bytes: number): Promise<Uint8Array | null> => {
    const given = new Uint8Array(bytes);
    for (let filled = 0; filled < bytes;) {
      const chunk = await some(bytes - filled);
      if (chunk === null) return null;
      given.set(chunk, filled);
      filled += chunk.length;
    }
    return given;
  };
  const skip = async (bytes: number): Promise<void> => {
    for (let left = bytes; left > 0;) {
      const chunk = await some(left);
      if (chunk === null) throw new BrokenArchive("the archive breaks off");
      left -= chunk.length;
    }
  };
  return { some, exactly, skip };
}
