import { secondsMax } from "../media/audio.ts";
import type { MeteredUsage } from "../operations/usage.ts";
import type { PriceRates } from "./price.ts";

export interface Cost {
  /** Billionths of a dollar; null where a rate or a figure is missing that is needed to know. */
  readonly nanos: number | null;
  /** A figure that counts here is our own estimate. */
  readonly estimated: boolean;
}

/**
 * What a call costs. Cached, cache-writing and audio tokens are part of the prompt; reasoning and audio tokens are part of the
 * completion. Each part has its own rate, or else that of the whole; parts that exceed the whole are cut to it, and a part that
 * was not told is none. A whole that was not told is taken from the estimate where there is one. Where it is needed and nobody
 * knows it, or its rate, the cost is unknown; at a rate of zero it is not needed.
 */
export function costNanos(rates: PriceRates | null, metered: MeteredUsage | null, estimate: MeteredUsage | null = null): Cost {
  if (rates === null || !isPriced(rates)) return unknown;
  const bill = new Bill();
  const isKnown =
    (!isByTokens(rates) || addTokens(bill, rates, metered, estimate)) &&
    addUnits(bill, rates.characters, countOf(metered?.characters), countOf(estimate?.characters)) &&
    addUnits(bill, rates.seconds, microsecondsOf(metered?.audioSeconds), microsecondsOf(estimate?.audioSeconds)) &&
    addUnits(bill, rates.call, million, null);
  if (!isKnown) return unknown;
  const nanos = bill.nanos();
  return { nanos, estimated: bill.estimated || (metered?.estimated === true && nanos > 0) };
}

/** Whether a model is billed by its tokens, not only by what it hears or says. */
export function isByTokens({ input, cachedInput, cacheWrite, output, reasoning, audioInput, audioOutput }: PriceRates): boolean {
  return (input ?? output ?? cachedInput ?? cacheWrite ?? reasoning ?? audioInput ?? audioOutput) !== undefined;
}

const unknown: Cost = { nanos: null, estimated: false };
const million = 1_000_000;
/** A larger figure is a fault of whoever told it, not a count. */
const countMax = 1e9;

function isPriced(rates: PriceRates): boolean {
  return (rates.characters ?? rates.seconds ?? rates.call) !== undefined || isByTokens(rates);
}

/**
 * Rates times units, added up in millionths of a billionth of a dollar and rounded half up once. A number holds most sums
 * exactly; the rest takes more digits.
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

/** False where the cost cannot be known; so do the others. */
function addTokens(bill: Bill, rates: PriceRates, metered: MeteredUsage | null, estimate: MeteredUsage | null): boolean {
  const toldPrompt = countOf(metered?.promptTokens);
  const toldCompletion = countOf(metered?.completionTokens);
  const prompt = toldPrompt ?? countOf(estimate?.promptTokens);
  const completion = toldCompletion ?? countOf(estimate?.completionTokens);
  const isLong = prompt !== null && rates.longAboveTokens !== undefined && prompt > rates.longAboveTokens;
  if ((toldPrompt === null && prompt !== null) || (toldCompletion === null && completion !== null)) bill.estimated = true;
  return addInput(bill, rates, isLong, prompt, metered) && addOutput(bill, rates, isLong, completion, metered);
}

function addInput(bill: Bill, rates: PriceRates, isLong: boolean, prompt: number | null, metered: MeteredUsage | null): boolean {
  const input = (isLong ? rates.longInput : undefined) ?? rates.input;
  const cachedInput = (isLong ? rates.longCachedInput : undefined) ?? rates.cachedInput ?? input;
  const cacheWrite = (isLong ? rates.longCacheWrite : undefined) ?? rates.cacheWrite ?? input;
  const audioInput = rates.audioInput ?? input;
  if (prompt === null) return input === 0 && cachedInput === 0 && cacheWrite === 0 && audioInput === 0;
  const audio = Math.min(countOf(metered?.audioInputTokens) ?? 0, prompt);
  const cached = Math.min(countOf(metered?.cachedTokens) ?? 0, prompt - audio);
  const written = Math.min(countOf(metered?.cacheWriteTokens) ?? 0, prompt - audio - cached);
  return (
    addPart(bill, input, prompt - audio - cached - written) &&
    addPart(bill, cachedInput, cached) &&
    addPart(bill, cacheWrite, written) &&
    addPart(bill, audioInput, audio)
  );
}

function addOutput(bill: Bill, rates: PriceRates, isLong: boolean, completion: number | null, metered: MeteredUsage | null): boolean {
  const output = (isLong ? rates.longOutput : undefined) ?? rates.output;
  const reasoning = rates.reasoning ?? output;
  const audioOutput = rates.audioOutput ?? output;
  if (completion === null) return output === 0 && reasoning === 0 && audioOutput === 0;
  const audio = Math.min(countOf(metered?.audioOutputTokens) ?? 0, completion);
  const thought = Math.min(countOf(metered?.reasoningTokens) ?? 0, completion - audio);
  return addPart(bill, output, completion - audio - thought) && addPart(bill, reasoning, thought) && addPart(bill, audioOutput, audio);
}

/** Tokens that nobody has a rate for cannot be billed; none of them cost nothing. */
function addPart(bill: Bill, rate: number | undefined, tokens: number): boolean {
  if (tokens === 0) return true;
  if (!isRate(rate)) return false;
  bill.add(tokens, rate);
  return true;
}

/** What is not counted in tokens; without a rate it is no part of the price. */
function addUnits(bill: Bill, rate: number | undefined, told: number | null, guessed: number | null): boolean {
  if (rate === undefined || rate === 0) return true;
  const units = told ?? guessed;
  if (!isRate(rate) || units === null) return false;
  if (told === null) bill.estimated = true;
  bill.add(units, rate);
  return true;
}

function isRate(rate: number | undefined): rate is number {
  return rate !== undefined && rate >= 0 && Number.isSafeInteger(rate);
}

function countOf(figure: number | null | undefined): number | null {
  return figure != null && figure >= 0 && figure <= countMax && Number.isInteger(figure) ? figure : null;
}

function microsecondsOf(seconds: number | null | undefined): number | null {
  return seconds != null && seconds >= 0 && seconds <= secondsMax ? Math.round(seconds * million) : null;
}
