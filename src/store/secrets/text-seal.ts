import type { TextSeal } from "../../operations/conversation/sealed-parts.ts";
import { decryptBytes, deriveKey, encryptBytes, keyBytes, type AssociatedData, type EncryptionKey } from "./encryption.ts";

/**
 * Seals texts that clients carry. A sealed text is the version of its key and the encrypted text. It is sealed with the first key and
 * opens with any, so that a key can be replaced while clients still carry texts of the one before.
 */
export function makeTextSeal(first: EncryptionKey, ...others: readonly EncryptionKey[]): TextSeal {
  const keys = [first, ...others];
  return {
    seal: (text, context) => {
      // Clients send what they carry with every later request: it should be short.
      const bytes = new TextEncoder().encode(text);
      if (bytes.length > textBytesMax) return null;
      return `${first.version}.${encryptBytes(keyFor(context, first), Bun.deflateSync(bytes), placeOf(first))}`;
    },
    open: (sealed, context) => {
      if (sealed.length > sealedMax) return null;
      const end = sealed.indexOf(".");
      const key = keys.find(({ version }) => version === sealed.slice(0, end));
      const bytes = key === undefined ? null : decryptBytes(keyFor(context, key), sealed.slice(end + 1), placeOf(key));
      // What opens was compressed by us, so it is no longer than what we seal. `node:zlib` would take 4 MB before the first call.
      return bytes === null ? null : new TextDecoder().decode(Bun.inflateSync(bytes));
    },
  };
}

/**
 * A key for each context. The nonces are random, which is safe for a few billion texts under one key: the key of an installation would
 * see more in some years, that of one client and one model does not.
 */
function keyFor(context: readonly string[], { bytes }: EncryptionKey): Uint8Array {
  return deriveKey(bytes, "sluice carried text 1", keyBytes, new TextEncoder().encode(JSON.stringify(context)));
}

function placeOf({ version }: EncryptionKey): AssociatedData {
  return { table: "carried", row: "", field: "text", version };
}

/** More than any model reasons in one answer. */
const textBytesMax = 2 * 1024 * 1024;
/** Even a text that cannot be compressed is shorter, as base64 and with its version. */
const sealedMax = 3 * 1024 * 1024;
