import type { DeltaRun } from "../operations/chat/delta-run.ts";
import { TokenCount } from "./token-estimate.ts";

/**
 * How many tokens of an answer have arrived, if its upstream has not reported a count. Most upstreams send one token in each
 * delta, so deltas are counted. If the first deltas show that they hold several tokens, the number is estimated from the text.
 */
export class OutputCount {
  private deltas = 0;
  private sampled = 0;
  private withSeveral = 0;
  private readonly estimate = new TokenCount();

  push(text: string): void {
    this.deltas += 1;
    this.estimate.push(text);
    if (this.sampled < samplesMax) this.sample(text);
  }

  pushRun(run: DeltaRun): void {
    for (let at = 0; at < run.count && this.sampled < samplesMax; at += 1) this.sample(run.wordsAt(at));
    this.deltas += run.count;
    this.estimate.pushRun(run);
  }

  get tokens(): number {
    if (this.withSeveral <= this.sampled * severalShareMax) return this.deltas;
    return Math.max(this.deltas, this.estimate.tokens);
  }

  private sample(text: string): void {
    this.sampled += 1;
    if (text.length > tokenCharactersMax || severalTokens.test(text)) this.withSeveral += 1;
  }
}

/** A space belongs to the word behind it; of ideographs, Hangul and kana hardly more than two make a token. */
const severalTokens = /\S\s+\S|[\u2e80-\ud7af\uf900-\uffef]{4}/;
const tokenCharactersMax = 24;
const severalShareMax = 0.2;
const samplesMax = 64;
