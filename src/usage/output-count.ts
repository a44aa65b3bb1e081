import type { DeltaRun } from "../operations/chat/delta-run.ts";
import { TokenCount } from "./token-estimate.ts";

/**
 * How many tokens of an answer have come, for one whose upstream has not counted them (yet). Most upstreams send each token by
 * itself: then their number is that of the deltas, whatever the words are. Where deltas hold several, which the first of them
 * show, the characters tell.
 */
export class OutputCount {
  private deltas = 0;
  private looked = 0;
  private gathered = 0;
  private readonly spoken = new TokenCount();

  push(text: string): void {
    this.deltas += 1;
    this.spoken.push(text);
    if (this.looked < looksMax) this.look(text);
  }

  pushRun(run: DeltaRun): void {
    for (let at = 0; at < run.count && this.looked < looksMax; at += 1) this.look(run.wordsAt(at));
    this.deltas += run.count;
    this.spoken.pushRun(run);
  }

  get tokens(): number {
    if (this.gathered <= this.looked * gatheredShare) return this.deltas;
    return Math.max(this.deltas, this.spoken.tokens);
  }

  private look(text: string): void {
    this.looked += 1;
    if (text.length > tokenCharactersMax || severalTokens.test(text)) this.gathered += 1;
  }
}

/** A space belongs to the word behind it; of ideographs, Hangul and kana hardly more than two make a token. */
const severalTokens = /\S\s+\S|[\u2e80-\ud7af\uf900-\uffef]{4}/;
const tokenCharactersMax = 24;
const gatheredShare = 0.2;
const looksMax = 64;
