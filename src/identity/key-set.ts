import type { CompactJWSHeaderParameters, createLocalJWKSet, JWK } from "jose";
import { IssuerProblem, isObject, type IssuerClient } from "./issuer-client.ts";

type SelectKey = ReturnType<typeof createLocalJWKSet>;
type VerificationKey = Awaited<ReturnType<SelectKey>>;

/** The keys that a token may have been signed with: most name one, and some issuers give theirs no names. */
export interface FoundKeys {
  readonly keys: readonly VerificationKey[];
  /** Which of the sets that the issuer has had they are from. */
  readonly set: number;
}

/**
 * The public keys of an issuer (RFC 7517), fetched when they are needed. A token with an unknown key, or with a signature that none of
 * them made, is a reason to look for new ones, because issuers replace their keys, some under the same name; but anybody can send such
 * a token, so the issuer is asked once in a while only. An issuer that is down is no reason to forget its keys, for a day, and neither
 * is one that hangs.
 */
export class KeySet {
  private select: SelectKey | null = null;
  private fetched = "";
  private set = 0;
  private fetchedMs = Number.NEGATIVE_INFINITY;
  private triedMs = Number.NEGATIVE_INFINITY;
  private problem: IssuerProblem | null = null;
  private pending: Promise<void> | null = null;
  /** How many callers wait for the issuer. Anybody can send tokens with unknown keys; those with known ones do not wait, and are not counted. */
  private waiting = 0;

  constructor(
    private readonly client: IssuerClient,
    /** Where the keys are; null if the issuer's metadata says it. */
    private readonly given: string | null,
    private readonly nowMs: () => number,
    /** How long keys that are known wait for newer ones. Callers wait for little longer. */
    private readonly patienceMs = 1_000,
  ) {}

  /** The keys that fit what a token says of its own; none if the issuer has no such key. */
  async find(header: CompactJWSHeaderParameters): Promise<FoundKeys | IssuerProblem> {
    const ageMs = this.nowMs() - this.fetchedMs;
    if (ageMs > staleMaxMs) this.select = null;
    if (ageMs > freshMs) await this.renewed();
    const known = await this.selected(header);
    if (known.keys.length > 0) return known;
    const hasWaited = await this.refresh();
    const found = await this.selected(header);
    if (found.keys.length > 0) return found;
    return hasWaited ? (this.problem ?? found) : new IssuerProblem("too many tokens wait for new keys of the issuer");
  }

  /** Whether the issuer has other keys by now. */
  async isReplaced({ set }: FoundKeys): Promise<boolean> {
    if (set === this.set) await this.refresh();
    return set !== this.set;
  }

  private async selected(header: CompactJWSHeaderParameters): Promise<FoundKeys> {
    const { select, set } = this;
    if (select === null) return { keys: [], set };
    // It rejects where none or several fit, and where the key itself is unusable.
    const chosen: unknown = await select(header).catch((error: unknown) => error);
    if (!(chosen instanceof Error)) return { keys: [chosen as VerificationKey], set };
    const keys: VerificationKey[] = [];
    if (isIterable(chosen)) {
      for await (const key of chosen) if (keys.push(key) === candidatesMax) break;
    }
    return { keys, set };
  }

  private async renewed(): Promise<void> {
    if (this.select === null) {
      await this.refresh();
      return;
    }
    if (this.pending !== null && this.nowMs() - this.triedMs >= this.patienceMs) return;
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, this.patienceMs);
    await Promise.race([this.fetching(), late]);
    clearTimeout(timer);
  }

  /** Waits until the issuer has been asked, if it may be asked now; false if too many wait for it. */
  private async refresh(): Promise<boolean> {
    if (this.waiting >= waitingMax) return false;
    this.waiting += 1;
    try {
      await this.fetching();
      return true;
    } finally {
      this.waiting -= 1;
    }
  }

  private async fetching(): Promise<void> {
    if (this.pending === null) {
      if (this.nowMs() - this.triedMs < pauseMs) return;
      this.triedMs = this.nowMs();
      this.pending = this.fetch().finally(() => {
        this.pending = null;
      });
    }
    await this.pending;
  }

  private async fetch(): Promise<void> {
    const keys = await this.keys();
    if (keys instanceof IssuerProblem) {
      this.problem = keys;
      // It may have taken as long as the pause, and whoever waited for it must not wait for another one.
      this.triedMs = this.nowMs();
      return;
    }
    // Loaded when it is needed first: most gateways accept no tokens, and should not hold it in memory.
    const jose = await import("jose");
    this.problem = null;
    this.fetchedMs = this.nowMs();
    const text = JSON.stringify(keys);
    if (text !== this.fetched) this.set += 1;
    this.fetched = text;
    this.select = jose.createLocalJWKSet({ keys: [...keys] });
  }

  private async keys(): Promise<readonly JWK[] | IssuerProblem> {
    const place = this.given ?? (await keysPlace(this.client));
    if (place instanceof IssuerProblem) return place;
    const document = await this.client.document(place);
    if (document instanceof IssuerProblem) return document;
    const { keys } = document;
    if (!Array.isArray(keys)) return new IssuerProblem(`${place} has no keys`);
    if (keys.length > keysMax) return new IssuerProblem(`${place} has more than ${keysMax} keys`);
    // Other kinds, such as a shared secret, must not verify anything, whatever the issuer publishes.
    return (keys as readonly unknown[]).filter(
      (key): key is JWK => isObject(key) && typeof key["kty"] === "string" && publicKinds.has(key["kty"]),
    );
  }
}

/** The issuer's metadata must be its own (OpenID Connect Discovery 1.0, 4.3): else one issuer could speak for another. */
async function keysPlace(client: IssuerClient): Promise<string | IssuerProblem> {
  const place = `${client.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const metadata = await client.document(place);
  if (metadata instanceof IssuerProblem) return metadata;
  if (metadata["issuer"] !== client.issuer) return new IssuerProblem(`${place} is the metadata of another issuer`);
  const { jwks_uri: keys } = metadata;
  return typeof keys === "string" ? keys : new IssuerProblem(`${place} does not tell where the keys are`);
}

/** The error for several keys that fit gives them, one after the other. */
function isIterable(error: Error): error is Error & AsyncIterable<VerificationKey> {
  return Symbol.asyncIterator in error;
}

const publicKinds: ReadonlySet<string> = new Set(["RSA", "EC", "OKP"]);
const keysMax = 100;
/** Each of them is a signature to be verified for a token of anybody. */
const candidatesMax = 4;
const waitingMax = 1_000;
const freshMs = 10 * 60_000;
const staleMaxMs = 24 * 60 * 60_000;
const pauseMs = 10_000;
