import { closeSync, openSync, readSync } from "node:fs";
import { CommandError, exitCodes } from "../command-error.ts";

/** The passphrase that is the one line of a file, which may be a pipe. It is in no argument, where other users could see it. */
export function readPassphrase(file: string): string {
  const text = readStart(file);
  const passphrase = text.replace(/\r?\n$/, "");
  if (passphrase !== "" && text.length <= charactersMax && passphrase.isWellFormed() && !/\p{Cc}/u.test(passphrase)) return passphrase;
  throw new CommandError(`${file} must hold one line with the passphrase, of at most ${charactersMax} characters.`, exitCodes.usage);
}

function readStart(file: string): string {
  const bytes = Buffer.alloc(charactersMax * bytesPerCharacterMax + 1);
  let length = 0;
  try {
    const descriptor = openSync(file, "r");
    try {
      for (let read = 1; read > 0 && length < bytes.length; length += read)
        read = readSync(descriptor, bytes, length, bytes.length - length, null);
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CommandError(`The passphrase cannot be read from ${file}: ${reason}.`, exitCodes.usage);
  }
  try {
    return strict.decode(bytes.subarray(0, length));
  } catch {
    // What is not text would all become the same character, and count for nothing.
    throw new CommandError(`${file} is not a text in UTF-8, as a passphrase must be.`, exitCodes.usage);
  }
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const charactersMax = 1024;
const bytesPerCharacterMax = 4;
