import { lostRace, type AttemptRecord, type CallRecord } from "../../gateway/settlement/record.ts";
import type { Failure } from "../../operations/failure.ts";
import type { Operation } from "../../operations/operation.ts";
import { failedBefore, hasOutput, isBroken } from "../../usage/call-outcome.ts";
import type { AttemptReceipt, Receipt } from "../../usage/receipt.ts";
import { ChannelCounters, KeyCounters, ModelCounters, type TrafficCounters } from "./call-counters.ts";
import { callFamilies, type CallFamilies } from "./call-families.ts";
import { BoundedNames, type MetricRegistry } from "./registry.ts";

/**
 * What calls count, taken from their records and receipts when they are settled. The counters that one model uses on one channel are looked
 * up together, so that a call costs a few additions.
 */
export class CallMetrics {
  private readonly channels = new BoundedNames(channelsMax);
  private readonly reasons = new BoundedNames(reasonsMax);
  private readonly keys = new BoundedNames(keysMax);
  private readonly byOperation = new Map<Operation, Map<string, ModelCounters>>();
  private readonly byChannel = new Map<string, ChannelCounters>();
  private readonly byKey = new Map<string, KeyCounters>();
  private readonly families: CallFamilies;

  constructor(
    readonly registry: MetricRegistry,
    /** Whether requests, tokens and money are also counted for each key. */
    private readonly keyLabels: boolean,
    /** The code that clients are told. */
    private readonly codeOf: (failure: Failure) => string,
  ) {
    this.families = callFamilies(registry);
  }

  /** `receipt` is null for a request that was not admitted. */
  readonly observe = (record: CallRecord, receipt: Receipt | null): void => {
    // The name of a model that was refused is whatever the client wrote.
    const model = this.modelCounters(record.operation, receipt === null ? "" : this.registry.modelLabel(receipt.model));
    model.request(record, receipt === null ? "refused" : record.state).value += 1;
    if (record.attempts.length === 0 && record.failure !== null && record.failure.kind !== "client_gone")
      this.refused(record.failure, record.operation);
    if (receipt === null) return;
    model.requestBytes.value += record.bytesIn;
    model.responseBytes.value += record.bytesOut;
    model.duration.observe((record.endedMs - record.startedMs) / 1000);
    this.streamed(record, receipt, model);
    const { attempts } = record;
    if (attempts.length > 0) model.overhead.observe(overheadMs(record) / 1000);
    let broken = false;
    for (let at = 0; at < attempts.length; at += 1) {
      const attempt = attempts[at];
      const used = receipt.attempts[at];
      if (attempt === undefined || used === undefined) continue;
      const channel = this.channels.of(attempt.channel);
      this.attempted(channel, attempt);
      if (at > 0) this.saved(channel, receipt, at, broken);
      const series = model.on(channel);
      this.used(series, used);
      if (attempt.longestGapMs !== null) series.streams.longestGap.observe(attempt.longestGapMs / 1000);
      broken ||= isBroken(used);
    }
    if (receipt.hedgeWasteNanos > 0) this.families.hedgeWaste.with(model.name).value += receipt.hedgeWasteNanos;
    if (this.keyLabels) this.ofKey(receipt);
  };

  /** A request was refused; without an operation, it was none that could become a call. */
  readonly refused = (why: Failure, operation: Operation | "" = ""): void => {
    this.families.refusals.with(operation, this.reasons.of(this.codeOf(why))).value += 1;
  };

  private modelCounters(operation: Operation, name: string): ModelCounters {
    let ofOperation = this.byOperation.get(operation);
    if (ofOperation === undefined) this.byOperation.set(operation, (ofOperation = new Map<string, ModelCounters>()));
    let model = ofOperation.get(name);
    if (model === undefined) ofOperation.set(name, (model = new ModelCounters(this.families, operation, name)));
    return model;
  }

  private streamed(record: CallRecord, receipt: Receipt, model: ModelCounters): void {
    if (!record.stream || record.firstContentMs === null || receipt.channel === null) return;
    // Not the channel that went on with it, if the answer broke off.
    const began = receipt.attempts.find(hasOutput)?.channel ?? receipt.channel;
    const { firstContent, betweenChunks } = model.on(this.channels.of(began)).streams;
    firstContent.observe(record.firstContentMs / 1000);
    const gapMs = chunkGapMs(record);
    if (gapMs !== null) betweenChunks.observe(gapMs / 1000);
  }

  private attempted(channel: string, attempt: AttemptRecord): void {
    let series = this.byChannel.get(channel);
    if (series === undefined) this.byChannel.set(channel, (series = new ChannelCounters(this.families, channel)));
    series.duration.observe(attempt.tookMs / 1000);
    // Another attempt was quicker, which is no error, and not the end of anybody's patience.
    const error = attempt.failure === lostRace ? "" : (attempt.failure?.kind ?? "");
    series.attempt(attempt.outcome, error).value += 1;
    if (attempt.hedge) this.families.hedges.with(channel, hedgeOutcome(attempt)).value += 1;
  }

  /** An attempt after one that failed: with the rest of a broken answer, on the same channel again, or on another one. */
  private saved(channel: string, { attempts }: Receipt, at: number, broken: boolean): void {
    const { rescues, retries, failovers } = this.families;
    const attempt = attempts[at]!;
    if (broken && !attempt.hedge) {
      rescues.with(channel, hasOutput(attempt) ? "continued" : "failed").value += 1;
      return;
    }
    const before = failedBefore(attempts, at);
    if (before === null) return;
    const left = this.channels.of(before.channel);
    if (left === channel) retries.with(channel).value += 1;
    else failovers.with(left, channel).value += 1;
  }

  private used(series: TrafficCounters, used: AttemptReceipt): void {
    const { promptTokens, cachedTokens, completionTokens, reasoningTokens, audioSeconds, characters, nanos } = used;
    if (promptTokens !== null || completionTokens !== null) {
      const { input, cached, output, reasoning } = series.tokens;
      input.value += promptTokens ?? 0;
      cached.value += cachedTokens ?? 0;
      output.value += completionTokens ?? 0;
      reasoning.value += reasoningTokens ?? 0;
    }
    if (audioSeconds !== null) series.rare("audioSeconds").value += audioSeconds;
    if (characters !== null) series.rare("characters").value += characters;
    if (nanos === null) series.rare("unpriced").value += 1;
    else series.cost.value += nanos;
  }

  private ofKey({ keyId, billedNanos, attempts }: Receipt): void {
    const key = this.keys.of(keyId);
    let series = this.byKey.get(key);
    if (series === undefined) this.byKey.set(key, (series = new KeyCounters(this.families, key)));
    series.requests.value += 1;
    series.cost.value += billedNanos ?? 0;
    for (const { promptTokens, completionTokens } of attempts) {
      series.input.value += promptTokens ?? 0;
      series.output.value += completionTokens ?? 0;
    }
  }
}

/**
 * The gateway's own part of a call: the time in which no attempt was running, and in which the call did not wait on purpose or for its
 * client. The parts of a long call run beside each other, so that one of them may work while another one waits.
 */
function overheadMs({ startedMs, endedMs, waitedMs, attempts }: CallRecord): number {
  let coveredMs = waitedMs;
  let untilMs = startedMs;
  for (const one of attempts.length === 1 ? attempts : attempts.toSorted((a, b) => begunMs(a) - begunMs(b))) {
    const fromMs = Math.max(begunMs(one), untilMs);
    const toMs = Math.min(one.startedMs + one.tookMs, endedMs);
    if (toMs > fromMs) coveredMs += toMs - fromMs;
    untilMs = Math.max(untilMs, toMs);
  }
  return Math.max(0, endedMs - startedMs - coveredMs);
}

/** When the wait before it began; if there was none, its own start. */
function begunMs({ startedMs, waitedMs }: AttemptRecord): number {
  return startedMs - waitedMs;
}

/** The mean time between two chunks of a stream; null if there were fewer than two. */
function chunkGapMs({ startedMs, endedMs, firstContentMs, chunks }: CallRecord): number | null {
  if (firstContentMs === null || chunks < 2) return null;
  return Math.max(0, endedMs - startedMs - firstContentMs) / (chunks - 1);
}

function hedgeOutcome({ outcome, failure }: AttemptRecord): string {
  return outcome === "answered" ? "won" : failure === lostRace ? "lost" : outcome;
}

const channelsMax = 300;
const reasonsMax = 100;
const keysMax = 1_000;
