import { timingSafeEqual } from "node:crypto";
import { bearerCharactersMax, parseBearer } from "../keys/bearer.ts";
import { groupFrozen, groupMissing } from "../gateway/admission/frozen.ts";
import type { GroupDirectory } from "../gateway/admission/group-directory.ts";
import type { Opened } from "../gateway/admission/key-cache.ts";
import type { Key } from "../keys/key.ts";
import { failure, type Failure } from "../operations/failure.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";

/** Finds the key of a request from its headers alone: no body is read for a client without a valid key. */
export function authenticate(request: IncomingRequest, ring: KeyRing, wallMs: number): Key | Failure | Promise<Key | Failure> {
  const { charactersMax } = ring;
  let token = parseBearer(request.header("authorization"), charactersMax);
  let differs = false;
  for (const name of keyHeaders) {
    const other = request.header(name);
    // Some clients send the header of a key that is set to nothing, beside the one that they were given.
    if (other === null || other === "") continue;
    if (typeof token !== "string" && token.kind === "missing") token = parseBearer(`Bearer ${other}`, charactersMax);
    else differs ||= other !== token;
  }
  if (typeof token !== "string") return token.kind === "ambiguous" ? ambiguous : unauthorized;
  if (differs) return ambiguous;
  const opened = ring.find(token);
  return opened instanceof Promise ? admittedLater(opened, ring, wallMs) : admitted(opened, ring, wallMs);
}

/** Whether a request has no key at all, which is something else than a wrong one. */
export function namesNoKey(request: IncomingRequest): boolean {
  return ["authorization", ...keyHeaders].every((name) => request.header(name) === null);
}

/** Clients of some APIs send their key in a header of its own. */
export const keyHeaders = ["x-api-key", "api-key", "x-goog-api-key"];

/** A store that hangs must not hang the request. */
async function inTime(asked: Promise<Opened>, lookUpMs: number): Promise<Opened> {
  const { promise: late, resolve } = Promise.withResolvers<"unavailable">();
  const timer = setTimeout(() => resolve("unavailable"), lookUpMs);
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function admittedLater(opened: Promise<Opened>, ring: KeyRing, wallMs: number): Promise<Key | Failure> {
  return admitted(await inTime(opened, ring.lookUpMs), ring, wallMs);
}

function admitted(key: Opened, ring: KeyRing, wallMs: number): Key | Failure | Promise<Key | Failure> {
  if (key === null) return unauthorized;
  // A key that could not be looked up must not be reported as wrong.
  if (key === "unavailable") return storeUnavailable;
  if ("damaged" in key) return failure("internal", key.damaged);
  if (key.expiresMs !== null && key.expiresMs <= wallMs) return unauthorized;
  if (key.group === null) return key;
  const attached = ring.groups.attached(key);
  if (attached !== null) return withGroups(attached, key, ring);
  return inTime(ring.groups.attachedLater(key), ring.lookUpMs).then((later) => withGroups(later, key, ring));
}

/** What a key may do is not known without its groups, and none of it is allowed while one of them is frozen. */
function withGroups(attached: Opened, key: Key, ring: KeyRing): Key | Failure {
  if (attached === "unavailable") return storeUnavailable;
  if (attached === null || "damaged" in attached) return groupMissing(ring.groups.problemOf(key));
  const frozen = attached.chain?.frozen ?? null;
  return frozen === null ? attached : groupFrozen(frozen);
}

/**
 * The keys of the configuration, by digest only: a token is hashed with a secret of this installation before it is looked up, so
 * neither memory nor timing reveals a token. Other keys are looked up by `others`.
 */
export class KeyRing {
  private readonly entries = new Map<string, { readonly digest: Buffer; readonly key: Key }>();
  private readonly pepper: Bun.CryptoHasher;
  /** A longer header is rejected without hashing it. */
  readonly charactersMax: number;

  constructor(
    keys: Iterable<{ readonly key: Key; readonly token: string }>,
    pepper: Uint8Array,
    private readonly others: (digest: string, token: string) => Opened | Promise<Opened> = () => null,
    readonly groups: Pick<GroupDirectory, "attached" | "attachedLater" | "problemOf"> = withoutGroups,
    /** Tokens of issuers are accepted, which are longer than keys. */
    acceptsJwt = false,
    /** The longest wait of a request for a key. A store that is merely slow should be given more time than one that may be lost. */
    readonly lookUpMs = 3_000,
  ) {
    this.charactersMax = acceptsJwt ? jwtCharactersMax : bearerCharactersMax;
    this.pepper = new Bun.CryptoHasher("sha256", Buffer.from(pepper));
    for (const { key, token } of keys) {
      const digest = this.digestOf(token);
      this.entries.set(digest, { digest: Buffer.from(digest), key });
    }
  }

  find(token: string): Opened | Promise<Opened> {
    const digest = this.digestOf(token);
    const entry = this.entries.get(digest);
    given.write(digest, "latin1");
    const matches = timingSafeEqual(given, entry?.digest ?? emptyDigest);
    return matches && entry !== undefined ? entry.key : this.others(digest, token);
  }

  private digestOf(token: string): string {
    return this.pepper.copy().update(token).digest("hex");
  }
}

const withoutGroups = { attached: () => null, attachedLater: () => Promise.resolve(null), problemOf: () => null };

/** Half of the largest head of a request. */
const jwtCharactersMax = 8192;
const digestLength = 64;
/** Buffer for the comparison. One is enough, because the lookup in the configuration is synchronous. */
const given = Buffer.alloc(digestLength);
const emptyDigest = Buffer.alloc(digestLength);

const storeUnavailable = failure("store_unavailable", "a key could not be looked up");

/** The same response for a missing, malformed, unknown and expired key, so that guessing reveals nothing. */
const unauthorized = failure("invalid_request", "no valid key", {
  message: "Incorrect or missing API key. Send a valid key as 'Authorization: Bearer <key>'.",
  status: 401,
  type: "invalid_request_error",
  code: "invalid_api_key",
});

const ambiguous = failure("invalid_request", "more than one credential", {
  message: "The request carries more than one credential. Send exactly one key as 'Authorization: Bearer <key>'.",
  status: 400,
  type: "invalid_request_error",
  code: "ambiguous_credentials",
});
