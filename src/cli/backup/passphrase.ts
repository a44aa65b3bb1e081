import { closeSync, openSync, readSync } from "node:fs";
import { CommandError, exitCodes } from "../command-error.ts";

/**
 * Reads the passphrase, which is the only line of a file or a pipe. It is not an argument of the command, because other users of
 * the machine can see those.
 */
export function readPassphrase(file: string): string {
  const text = readStart(file);
  const passphrase = text.replace(/\r?\n$/, "");
  if (passphrase !== "" && text.length <= charactersMax && passphrase.isWellFormed() && !/\p{Cc}/u.test(passphrase)) return passphrase;
  throw new CommandError(`${file} must contain the passphrase as its only line, of at most ${charactersMax} characters.`, exitCodes.usage);
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
    // A lenient decoder would turn all invalid bytes into one character, so that different files gave the same passphrase.
    throw new CommandError(`${file} is not valid UTF-8: a passphrase must be text.`, exitCodes.usage);
  }
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const charactersMax = 1024;
const bytesPerCharacterMax = 4;
