import type { Durable } from "./durable.ts";
import { StorageError } from "../gateway/storage.ts";
import { defaultKey } from "../keys/stored-key.ts";
import { makeToken } from "../keys/token.ts";

/** Creates a key if there is none, and returns its token, which is shown only once. Null if there is a key. */
export async function firstKey({ storage, masterKey }: Durable): Promise<string | null> {
  if ((await storage.keys.count()) > 0) return null;
  const { token, publicId } = makeToken((bytes) => crypto.getRandomValues(new Uint8Array(bytes)));
  const key = { ...defaultKey, name: "first", note: "made at the first start" };
  const mark = { digest: masterKey.digest(token), last4: token.slice(-4) };
  try {
    await storage.keys.create(publicId, key, mark, { kind: "gateway", name: "first start" });
    return token;
  } catch (error) {
    // Another replica started at the same time, and has created and shown the key.
    if (error instanceof StorageError && error.kind === "conflict") return null;
    throw error;
  }
}
