import { createCipheriv, createDecipheriv } from "node:crypto";
import { open, type FileHandle } from "node:fs/promises";
import { StorageError } from "../../gateway/storage.ts";
import {
  backupMagic,
  contentKey,
  parseHeader,
  headerBytesMax,
  isAuthentic,
  newHeader,
  serializeHeader,
  type BackupHeader,
  type BackupKeyHint,
  type ParsedHeader,
} from "./header.ts";
import type { BackupKey } from "./key.ts";

/**
 * Encrypts a file in chunks, so that it can have any size. Each chunk is bound to its position, to the header and to whether it is
 * the last one: any change, reordering, removal, truncation or addition is detected.
 */
export async function encryptFile(from: string, to: string, key: BackupKey, onBytes: (bytes: number) => void = () => {}): Promise<void> {
  await using source = await open(from, "r");
  await using target = await open(to, "w", 0o600);
  const { size } = await source.stat();
  const header = newHeader(size, key.hint);
  const secret = await key.secret(header.salt);
  const headerBytes = serializeHeader(header, secret);
  await target.writeFile(headerBytes);
  const contentKeyBytes = contentKey(header, secret);
  const plain = Buffer.alloc(Math.min(header.chunkBytes, size));
  for (const { at, bytes, last } of chunks(header)) {
    const chunk = plain.subarray(0, bytes);
    if ((await readFully(source, chunk, at * header.chunkBytes)) < bytes) throw new Error(`${from} became shorter while it was read.`);
    const cipher = createCipheriv("aes-256-gcm", contentKeyBytes, nonceOf(at, last), { authTagLength: tagBytes });
    cipher.setAAD(headerBytes);
    await target.writeFile(Buffer.concat([cipher.update(chunk), cipher.final(), cipher.getAuthTag()]));
    onBytes(at * header.chunkBytes + bytes);
  }
}

/** Whether the file begins like an encrypted backup. */
export async function isEncrypted(file: string): Promise<boolean> {
  await using source = await open(file, "r");
  const start = Buffer.alloc(backupMagic.length);
  return (await readFully(source, start, 0)) === start.length && start.toString("latin1") === backupMagic;
}

/** Decrypts a backup into another file. If it rejects, the output must not be used. */
export async function decryptFile(
  from: string,
  to: string,
  keyFor: (hint: BackupKeyHint) => BackupKey,
  onBytes: (bytes: number) => void = () => {},
): Promise<void> {
  await using source = await open(from, "r");
  await using target = await open(to, "w", 0o600);
  const start = Buffer.alloc(headerBytesMax);
  const found = parseHeader(start.subarray(0, await readFully(source, start, 0)));
  if (found === null) throw damaged(from, "this version cannot read its header");
  const { header, end } = found;
  const key = keyFor(header.opensWith);
  const secret = await key.secret(header.salt);
  if (!isAuthentic(found, secret)) {
    throw key.hint.kind === "passphrase" ? wrongPassphrase(from) : damaged(from, "its header was changed");
  }
  await checkLength(from, source, found);
  const contentKeyBytes = contentKey(header, secret);
  const headerBytes = start.subarray(0, end);
  const held = Buffer.alloc(Math.min(header.chunkBytes, header.bytes) + tagBytes);
  for (const { at, bytes, last } of chunks(header)) {
    const chunk = held.subarray(0, bytes + tagBytes);
    const offset = at * header.chunkBytes;
    if ((await readFully(source, chunk, end + at * (header.chunkBytes + tagBytes))) < chunk.length) throw truncated(from);
    const plain = decryptChunk(contentKeyBytes, chunk, headerBytes, nonceOf(at, last));
    if (plain === null) throw damaged(from, `something was changed between its bytes ${offset} and ${offset + bytes}`);
    await target.writeFile(plain);
    onBytes(offset + bytes);
  }
}

function decryptChunk(key: Uint8Array, chunk: Uint8Array, headerBytes: Uint8Array, nonce: Uint8Array): Uint8Array | null {
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  decipher.setAAD(headerBytes);
  decipher.setAuthTag(chunk.subarray(-tagBytes));
  try {
    return Buffer.concat([decipher.update(chunk.subarray(0, -tagBytes)), decipher.final()]);
  } catch {
    return null;
  }
}

/** The header contains the length, so that a truncated file can be told from a changed one. */
async function checkLength(file: string, source: FileHandle, { header, end }: ParsedHeader): Promise<void> {
  const { size } = await source.stat();
  const expected = end + header.bytes + chunkCount(header) * tagBytes;
  if (size < expected) throw truncated(file);
  if (size > expected) throw damaged(file, "it is longer than it should be");
}

function* chunks(header: BackupHeader): Generator<{ readonly at: number; readonly bytes: number; readonly last: boolean }> {
  const count = chunkCount(header);
  for (let at = 0; at < count; at += 1) {
    yield { at, bytes: Math.min(header.chunkBytes, header.bytes - at * header.chunkBytes), last: at === count - 1 };
  }
}

function chunkCount({ bytes, chunkBytes }: BackupHeader): number {
  return Math.ceil(bytes / chunkBytes);
}

/** The number of the chunk, and whether it is the last one. Each file has its own key, so that no nonce is used twice. */
function nonceOf(at: number, last: boolean): Uint8Array {
  const nonce = Buffer.alloc(nonceBytes);
  nonce.writeBigUInt64BE(BigInt(at), nonceBytes - 9);
  nonce[nonceBytes - 1] = last ? 1 : 0;
  return nonce;
}

/** Reads until the buffer is full or the file ends. */
async function readFully(source: FileHandle, into: Uint8Array, from: number): Promise<number> {
  let count = 0;
  while (count < into.length) {
    const { bytesRead } = await source.read(into, count, into.length - count, from + count);
    if (bytesRead === 0) break;
    count += bytesRead;
  }
  return count;
}

function truncated(file: string): StorageError {
  return new StorageError("damaged", `${file} is truncated: its end is missing. Copy the original again, or use another backup.`);
}

function damaged(file: string, what: string): StorageError {
  return new StorageError("damaged", `${file} is damaged: ${what}. Copy the original again, or use another backup.`);
}

function wrongPassphrase(file: string): StorageError {
  return new StorageError(
    "invalid",
    `The passphrase does not decrypt ${file}: it is wrong, or the header of the file was changed. Give the passphrase that the backup was made with.`,
  );
}

const nonceBytes = 12;
const tagBytes = 16;
