import { oncePerRoute, type Deployment, type Route } from "../../channels/channel.ts";
import { hasBudgets, type Demand } from "../../limits/limits.ts";
import type { NamedChannel } from "../../keys/budget-selector.ts";
import type { Key } from "../../keys/key.ts";
import { type CallRequest, promptTokensOf } from "../../operations/call-request.ts";
import { failure } from "../../operations/failure.ts";
import { operationSpecs } from "../../operations/operation.ts";
import { isPriced } from "../../usage/cost.ts";
import { highestCost, expectedDemand, actualDemand } from "../../usage/demand.ts";
import type { PriceRates } from "../../usage/price.ts";
import type { Figures, Receipt } from "../../usage/receipt.ts";
import type { CallFacts } from "../call.ts";
import type { Admission, Grant, Limiter, LimitExceeded, ConcurrencySlot, SpentNanos } from "./limiter.ts";
import { OutputAverages } from "./output-averages.ts";
import { receiptOf, sumOf, type RatesOf } from "../settlement/receipt.ts";
import type { CallRecord, Persisted, ReceiptBook } from "../settlement/record.ts";

/** What the ledger needs from outside. */
export interface LedgerPorts {
  readonly limiter: Limiter;
  readonly receipts: ReceiptBook;
  readonly ratesOf: RatesOf;
  readonly wallMs: () => number;
  /** Writes the commands in a text as the operator types them. */
  readonly asTyped?: (text: string) => string;
  /** The access log. */
  readonly log: (record: CallRecord) => void;
  /** Metrics and traces: called once for each call, with its receipt, or with null if it was not admitted. */
  readonly observe?: (record: CallRecord, receipt: Receipt | null) => void;
  readonly onBug: (error: unknown) => void;
}

/** The accounts of the gateway: reserves what a call may cost before it is made, and records what it did cost afterwards. */
export class Ledger {
  private readonly outputs = new OutputAverages();
  private readonly writtenWhen = oncePerWrite((opening) => opening.then(yes, no));
  // If the journal is closed, it still has the call as started, so that the call is not lost.
  private readonly persistedWhen = oncePerWrite((closing) => closing.catch(ignore));
  /** Reused by all calls, because it is only read before the next call fills it. */
  private readonly found: (PriceRates | null)[] = [];

  constructor(private readonly ports: LedgerPorts) {}

  /** Rejects a key that has no room for any call. Reserves nothing. */
  precheck(key: Key): LimitExceeded | null {
    return this.ports.limiter.precheck(key);
  }

  /** A concurrency slot for a call whose request is still being read. */
  reserveSlot(key: Key, receiptId: string): ConcurrencySlot | LimitExceeded | Promise<ConcurrencySlot | LimitExceeded> {
    return this.ports.limiter.reserveSlot(key, receiptId);
  }

  /** What would be reserved for a call. Reserves nothing. */
  estimate(ask: CallRequest, route: Route): Demand {
    return this.demand(ask, route, this.ports.wallMs(), true);
  }

  /** Everything in the limits of a key that would refuse a call now, in the order in which a client would be told. Reserves nothing. */
  preview(key: Key, ask: CallRequest, route: Route, demand: Demand, spent: SpentNanos): readonly LimitExceeded[] {
    const asked = { id: "", model: ask.model, operation: ask.operation, route };
    const refusals = this.ports.limiter.preview(key, asked, demand, spent);
    return refusals.map((one) => (one.failure.code === "price_unknown" ? this.unpriced(one, route, this.ports.wallMs()) : one));
  }

  /**
   * Reserves what a call is expected to need. The limits are asked at once, so that a caller can give up a slot for the call in the
   * same turn. `receiptId` is unique and rises with time.
   */
  admit(
    receiptId: string,
    facts: Readonly<CallFacts>,
    key: Key,
    ask: CallRequest,
    route: Route,
  ): Admission | LimitExceeded | Promise<Admission | LimitExceeded> {
    const metered = hasBudget(key);
    if (metered && this.ports.receipts.full) return journalFull;
    const startedMs = this.ports.wallMs();
    const demand = this.demand(ask, route, startedMs, metered);
    const { unit } = operationSpecs[ask.operation];
    const admission: Admission = {
      id: receiptId,
      requestId: facts.id,
      keyId: key.id,
      operation: ask.operation,
      model: route.model,
      stream: facts.stream,
      startedMs,
      promptTokens: unit === "tokens" ? promptTokensOf(ask) : null,
      audioSeconds: unit === "audioSeconds" ? demand.audioSeconds : null,
      characters: unit === "characters" ? demand.characters : null,
      nanos: demand.nanos,
      owners: ownersOf(key),
      grant: nothingGranted,
      route,
      onRecord: null,
      warning: ask.operation === "transcription" && ask.isCut ? "truncated_audio" : null,
      closed: false,
    };
    const granting = this.ports.limiter.admit(key, admission, demand);
    return granting instanceof Promise ? this.openLater(admission, granting, metered) : this.open(admission, granting, metered);
  }

  private async openLater(
    admission: Admission,
    granting: Promise<Grant | LimitExceeded>,
    metered: boolean,
  ): Promise<Admission | LimitExceeded> {
    return this.open(admission, await granting, metered);
  }

  /** The limits have answered. A call that they admit is in the journal from now on. */
  private open(admission: Admission, grant: Grant | LimitExceeded, metered: boolean): Admission | LimitExceeded {
    const { receipts } = this.ports;
    if (grant.kind === "limit_exceeded")
      return grant.failure.code === "price_unknown" ? this.unpriced(grant, admission.route, admission.startedMs) : grant;
    admission.grant = grant;
    // A call that may spend money must be in the journal before it is made.
    if (metered) admission.onRecord = this.writtenWhen(receipts.open(admission));
    else receipts.openDeferred(admission);
    return admission;
  }

  /** The start of the call could not be written to the journal, so the call is not made. */
  lost(admission: Admission): LimitExceeded {
    admission.grant.settle(null);
    return journalFull;
  }

  /** Records how a call ended. If it was admitted, its receipt is written and its limits are settled. */
  readonly record = (record: CallRecord): Persisted => {
    const { log, receipts } = this.ports;
    log(record);
    const { admission } = record;
    if (admission === null) this.observe(record, null);
    if (admission === null || admission.closed) return null;
    admission.closed = true;
    const receipt = this.receiptOf(record, admission);
    this.observe(record, receipt);
    const { delivered } = receipt;
    if (operationSpecs[record.operation].unit === "tokens") this.outputs.learn(receipt.model, delivered.completionTokens);
    admission.grant.settle(record.attempts.length === 0 ? null : actualDemand(countedOf(receipt), receipt.billedNanos), servingOf(receipt));
    return this.persistedWhen(receipts.close(receipt));
  };

  /** A bug in metrics or traces must cost neither the settlement of a call nor its receipt. */
  private observe(record: CallRecord, receipt: Receipt | null): void {
    const { observe, onBug } = this.ports;
    try {
      observe?.(record, receipt);
    } catch (error) {
      onBug(error);
    }
  }

  /** If making the receipt fails, the reservation is released all the same. */
  private receiptOf(record: CallRecord, admission: Admission): Receipt {
    try {
      return receiptOf(record, admission, this.ports.ratesOf);
    } catch (error) {
      admission.grant.settle(null);
      throw error;
    }
  }

  /** Names the missing price as it has to be set. */
  private unpriced(limitExceeded: LimitExceeded, route: Route, atMs: number): LimitExceeded {
    const missing = route.tiers.flat().find(({ deployment: { channel, model } }) => {
      const rates = this.ports.ratesOf(channel.provider, model, atMs);
      return rates === null || !isPriced(rates);
    });
    const { publicMessage } = limitExceeded.failure;
    const message = missing === undefined ? publicMessage : `${publicMessage} ${priceCommand(missing.deployment)}`;
    return { ...limitExceeded, failure: { ...limitExceeded.failure, publicMessage: this.ports.asTyped?.(message) ?? message } };
  }

  /** The expected demand. Only a budget needs the price before the call: the highest of the route. */
  private demand(ask: CallRequest, route: Route, atMs: number, metered: boolean): Demand {
    const options = { outputAverage: this.outputs.of(route.model), ceiling: ceilingOf(route) };
    return expectedDemand(metered ? highestCost(ask, this.ratesOn(route, atMs), options) : null, ask, options);
  }

  private ratesOn(route: Route, atMs: number): readonly (PriceRates | null)[] {
    const { found } = this;
    found.length = 0;
    for (const { channel, model } of pricedApart(route)) {
      const rates = this.ports.ratesOf(channel.provider, model, atMs);
      if (!found.includes(rates)) found.push(rates);
    }
    return found;
  }
}

function priceCommand({ channel, model }: Deployment): string {
  const provider = channel.provider === null ? "" : ` --provider ${channel.provider}`;
  return `Channel ${channel.name} calls it ${JSON.stringify(model)}: \`sluice prices set ${model}${provider}\`.`;
}

/** What counts against limits. A client that leaves early has still used what was generated. */
function countedOf({ state, delivered, attempts }: Receipt): Figures {
  return state === "complete" ? delivered : sumOf(attempts);
}

/** Whose sums a call is counted in besides those of its key. One list for all calls of a key, which the journal keeps as text. */
function ownersOf(key: Key): readonly string[] {
  const { limits, chain } = key;
  if (limits.budgets.length === 0) return chain === undefined ? noOwners : chain.ids;
  let owners = ownersOfKeys.get(key);
  if (owners === undefined) ownersOfKeys.set(key, (owners = [...(chain?.ids ?? []), key.id]));
  return owners;
}

const ownersOfKeys = new WeakMap<Key, readonly string[]>();

/** The channel that a call is paid for, as its receipt remembers it: budgets for channels must agree with the sums. */
function servingOf({ channel, channelTags, owners }: Receipt): NamedChannel | null {
  if (owners.length === 0) return null;
  return channel === null && channelTags.length === 0 ? null : { name: channel ?? "", tags: channelTags };
}

/** What is written to the journal together shares one promise, and so whatever follows from that promise is made once. */
function oncePerWrite<Result>(follow: (write: Promise<void>) => Promise<Result>): (write: Promise<void>) => Promise<Result> {
  let last: { readonly write: Promise<void>; readonly result: Promise<Result> } | null = null;
  return (write) => {
    if (last?.write !== write) last = { write, result: follow(write) };
    return last.result;
  };
}

const ignore = (): void => {};
const yes = (): boolean => true;
const no = (): boolean => false;
const nothingGranted: Grant = { kind: "grant", rateLimitStatus: null, settle: ignore };
const noOwners: readonly string[] = [];

/** Whether the key or one of its groups has a budget. */
export function hasBudget({ limits, chain }: Key): boolean {
  if (hasBudgets(limits)) return true;
  if (chain !== undefined) for (const group of chain.groups) if (hasBudgets(group.limits)) return true;
  return false;
}

/** A route has many candidates but few different prices: one deployment of each provider and upstream model. */
const pricedApart = oncePerRoute(({ tiers }: Route): readonly Deployment[] => {
  const apart = new Map<string, Deployment>();
  for (const members of tiers) {
    for (const { deployment } of members) {
      const { channel, model } = deployment;
      apart.set(`${channel.provider ?? ""}\n${model}`, deployment);
    }
  }
  return [...apart.values()];
});

const ceilingOf = oncePerRoute(({ tiers }: Route): number | null => {
  let highest: number | null = 0;
  for (const members of tiers) {
    for (const { deployment } of members) {
      const { maxTokensCeiling } = deployment.channel;
      if (maxTokensCeiling === null) return null;
      highest = Math.max(highest ?? 0, maxTokensCeiling);
    }
  }
  return highest;
});

const journalFull: LimitExceeded = {
  kind: "limit_exceeded",
  failure: failure("store_unavailable", "the journal of receipts is full", {
    message: "The gateway cannot record what this call costs, because its journal is full. Try again later.",
  }),
  retryAfterMs: 5000,
  rateLimitStatus: null,
};
