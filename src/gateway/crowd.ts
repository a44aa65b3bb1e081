/**
 * Tells when a crowd of calls has left. What it leaves behind in memory the runtime looks for by what is made since, and where
 * nothing is made, by the clock: that may take a minute. So it is to be asked to look, once, and a moment later: the last of them
 * are still leaving when it is noticed.
 */
export class Crowd {
  private most = 0;
  private isLeaving = false;

  /** Is told now and then how many calls are under way. Returns whether memory is to be looked for. */
  hasLeft(calls: number): boolean {
    const hasLeft = this.isLeaving && calls < crowdMin;
    this.isLeaving = this.most >= crowdMin && calls <= this.most * leftShare;
    this.most = this.isLeaving ? calls : Math.max(this.most, calls);
    return hasLeft;
  }
}

const crowdMin = 1_000;
/** Looking takes longer the more there is that stays, and everybody waits meanwhile. */
const leftShare = 1 / 16;
