import type { Role } from "../gateway/storage.ts";

/** Who is asking, once the door knows. */
export type Caller = { readonly kind: "stranger" } | KnownCaller;

export type KnownCaller =
  /** A person with a browser. `digest` names the session in the store. */
  | { readonly kind: "session"; readonly name: string; readonly role: Role; readonly csrf: string; readonly digest: string }
  /** A machine with a token. */
  | { readonly kind: "token"; readonly name: string; readonly role: Role };
