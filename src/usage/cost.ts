import { secondsMax } from "../media/audio.ts";
import type { MeteredUsage } from "../operations/usage.ts";
import type { PriceRates } from "./price.ts";

export interface Cost {
  /** Billionths of a dollar; null if a rate or a figure that is needed is missing. */
  readonly nanos: number | null;
  /** One of the figures is an estimate of the gateway. */
  readonly estimated: boolean;
}

/**
 * What a call costs: what its provider states, where that counts, or else the sum of its parts. Cached, cache-writing and audio tokens are part of the prompt; reasoning and audio tokens are part of the
 * completion. Each part has its own rate, or else that of the whole. Parts that exceed the whole are limited to it, and a part
 * that was not reported is zero. If a whole was not reported, the estimate is used. If there is none, or a rate is missing, the
 * cost is unknown, unless the rate is zero. So it is where the upstream searched and there is no rate for that.
 */
export function costNanos(rates: PriceRates | null, metered: MeteredUsage | null, estimate: MeteredUsage | null = null): Cost {
  if (rates?.stated === true && metered?.statedNanos !== undefined) return { nanos: metered.statedNanos, estimated: false };
  if (rates === null || !isPriced(rates)) return unknown;
  const bill = new Bill();
  const isKnown =
    (!isByTokens(rates) || addTokens(bill, rates, metered, estimate)) &&
    addUnits(bill, rates.characters, countOf(metered?.characters), countOf(estimate?.characters)) &&
    addUnits(bill, rates.seconds, microsecondsOf(metered?.audioSeconds), microsecondsOf(estimate?.audioSeconds)) &&
    addUnits(bill, rates.image, wholeUnits(metered?.images), wholeUnits(estimate?.images)) &&
    addUnits(bill, rates.call, million, null) &&
    addSearches(bill, rates, metered);
  if (!isKnown) return unknown;
  const nanos = bill.nanos();
  return { nanos, estimated: bill.estimated || (metered?.estimated === true && nanos > 0) };
}

/**
 * What the caches of the upstream saved in a call: the price of the same tokens without a cache, less what they cost. Writing to a cache
 * may cost more than it saved, and then it is negative. Null if no cache was used, or if it cannot be known.
 */
export function cacheSavedNanos(rates: PriceRates | null, metered: MeteredUsage): number | null {
  if (!metered.cachedTokens && !metered.cacheWriteTokens) return null;
  if (rates === null || rates.stated === true || metered.promptTokens === null) return null;
  const actual = costNanos(rates, metered).nanos;
  const without = costNanos(rates, { ...metered, cachedTokens: 0, cacheWriteTokens: 0, cacheWriteHourTokens: 0 }).nanos;
  return actual === null || without === null ? null : without - actual;
}

/** Whether a model is billed by tokens, not only by seconds or characters. */
export function isByTokens(rates: PriceRates): boolean {
  const { input, cachedInput, cacheWrite, cacheWriteHour, output, reasoning, audioInput, audioOutput } = rates;
  return (input ?? output ?? cachedInput ?? cacheWrite ?? cacheWriteHour ?? reasoning ?? audioInput ?? audioOutput) !== undefined;
}

const unknown: Cost = { nanos: null, estimated: false };
const million = 1_000_000;
/** A larger figure is a mistake of the upstream. */
const countMax = 1e9;

/** Whether it has a rate for calls, and not only for searches or what the provider states afterwards. */
export function isPriced(rates: PriceRates): boolean {
  return (rates.characters ?? rates.seconds ?? rates.image ?? rates.call) !== undefined || isByTokens(rates);
}

/**
 * The sum of rates times units, in millionths of a billionth of a dollar, rounded half up once at the end. A number holds most
 * sums exactly; larger ones use a bigint.
 */
class Bill {
  estimated = false;
  private sum = 0;
  private large: bigint | null = null;

  add(units: number, rate: number): void {
    const sum = this.sum + units * rate;
    if (this.large === null && sum <= Number.MAX_SAFE_INTEGER) this.sum = sum;
    else this.large = (this.large ?? BigInt(this.sum)) + BigInt(units) * BigInt(rate);
  }

  nanos(): number {
    if (this.large !== null) return Math.min(Number((this.large + 500_000n) / 1_000_000n), Number.MAX_SAFE_INTEGER);
    const rest = this.sum % million;
    return (this.sum - rest) / million + (rest * 2 >= million ? 1 : 0);
  }
}

/** Returns false if the cost cannot be known, as the other functions below do. */
function addTokens(bill: Bill, rates: PriceRates, metered: MeteredUsage | null, estimate: MeteredUsage | null): boolean {
  const reportedPrompt = countOf(metered?.promptTokens);
  const reportedCompletion = countOf(metered?.completionTokens);
  const prompt = reportedPrompt ?? countOf(estimate?.promptTokens);
  const completion = reportedCompletion ?? countOf(estimate?.completionTokens);
  const isLong = prompt !== null && rates.longAboveTokens !== undefined && prompt > rates.longAboveTokens;
  if ((reportedPrompt === null && prompt !== null) || (reportedCompletion === null && completion !== null)) bill.estimated = true;
  return addInput(bill, rates, isLong, prompt, metered) && addOutput(bill, rates, isLong, completion, metered);
}

function addInput(bill: Bill, rates: PriceRates, isLong: boolean, prompt: number | null, metered: MeteredUsage | null): boolean {
  const input = (isLong ? rates.longInput : undefined) ?? rates.input;
  const cachedInput = (isLong ? rates.longCachedInput : undefined) ?? rates.cachedInput ?? input;
  const cacheWrite = (isLong ? rates.longCacheWrite : undefined) ?? rates.cacheWrite ?? input;
  const cacheWriteHour = (isLong ? rates.longCacheWriteHour : undefined) ?? rates.cacheWriteHour ?? cacheWrite;
  const audioInput = rates.audioInput ?? input;
  if (prompt === null) return input === 0 && cachedInput === 0 && cacheWrite === 0 && cacheWriteHour === 0 && audioInput === 0;
  const audio = Math.min(countOf(metered?.audioInputTokens) ?? 0, prompt);
  const cached = Math.min(countOf(metered?.cachedTokens) ?? 0, prompt - audio);
  const written = Math.min(countOf(metered?.cacheWriteTokens) ?? 0, prompt - audio - cached);
  const writtenHour = Math.min(countOf(metered?.cacheWriteHourTokens) ?? 0, written);
  return (
    addPart(bill, input, prompt - audio - cached - written) &&
    addPart(bill, cachedInput, cached) &&
    addPart(bill, cacheWrite, written - writtenHour) &&
    addPart(bill, cacheWriteHour, writtenHour) &&
    addPart(bill, audioInput, audio)
  );
}

function addOutput(bill: Bill, rates: PriceRates, isLong: boolean, completion: number | null, metered: MeteredUsage | null): boolean {
  const output = (isLong ? rates.longOutput : undefined) ?? rates.output;
  const reasoning = rates.reasoning ?? output;
  const audioOutput = rates.audioOutput ?? output;
  if (completion === null) return output === 0 && reasoning === 0 && audioOutput === 0;
  const audio = Math.min(countOf(metered?.audioOutputTokens) ?? 0, completion);
  const reasoningTokens = Math.min(countOf(metered?.reasoningTokens) ?? 0, completion - audio);
  return (
    addPart(bill, output, completion - audio - reasoningTokens) &&
    addPart(bill, reasoning, reasoningTokens) &&
    addPart(bill, audioOutput, audio)
  );
}

/** Tokens and searches without a rate make the cost unknown, unless there are none. */
function addPart(bill: Bill, rate: number | undefined, count: number): boolean {
  if (count === 0) return true;
  if (!isRate(rate)) return false;
  bill.add(count, rate);
  return true;
}

/** Adds what is not counted in tokens. Without a rate it is not part of the price. */
function addUnits(bill: Bill, rate: number | undefined, reported: number | null, estimated: number | null): boolean {
  if (rate === undefined || rate === 0) return true;
  const units = reported ?? estimated;
  if (!isRate(rate) || units === null) return false;
  if (reported === null) bill.estimated = true;
  bill.add(units, rate);
  return true;
}

function addSearches(bill: Bill, { webSearch, searchedCall, fileSearch }: PriceRates, metered: MeteredUsage | null): boolean {
  const web = countOf(metered?.webSearches) ?? 0;
  const isOnce = searchedCall !== undefined && web > 0;
  const inFiles = wholeUnits(metered?.fileSearches) ?? 0;
  return (
    (isOnce ? addPart(bill, searchedCall, million) : addPart(bill, webSearch, wholeUnits(web) ?? 0)) && addPart(bill, fileSearch, inFiles)
  );
}

function isRate(rate: number | undefined): rate is number {
  return rate !== undefined && rate >= 0 && Number.isSafeInteger(rate);
}

function countOf(figure: number | null | undefined): number | null {
  return figure != null && figure >= 0 && figure <= countMax && Number.isInteger(figure) ? figure : null;
}

/** Rates that are not per million are for a million millionths. */
function wholeUnits(figure: number | undefined): number | null {
  const count = countOf(figure);
  return count === null ? null : Math.min(count * million, Number.MAX_SAFE_INTEGER);
}

function microsecondsOf(seconds: number | null | undefined): number | null {
  return seconds != null && seconds >= 0 && seconds <= secondsMax ? Math.round(seconds * million) : null;
}
