/** Notices an engine that has work and gives no sign of life any more. It expects signs from the first one until a rest. */
export class Watchdog {
  private timer: ReturnType<typeof setInterval> | null = null;

  constructor(
    private readonly stuckMs: number,
    private readonly onStuck: () => void,
  ) {}

  beat(): void {
    this.rest();
    let halves = 0;
    // In two halves: where it was us who stood still, the signs that came meanwhile are read in the second.
    this.timer = setInterval(() => {
      halves++;
      if (halves < 2) return;
      this.rest();
      this.onStuck();
    }, this.stuckMs / 2);
    this.timer.unref();
  }

  rest(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }
}
