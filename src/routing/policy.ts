/** How hard the gateway tries, as the operator set it. */
export interface RoutingPolicy {
  readonly attemptsMax: number;
  /** `null`: hedging is off. */
  readonly hedgeAfterMs: number | null;
  readonly rescue: "error" | "continue";
  /** Everything before the first content, over all attempts. */
  readonly streamDeadlineMs: number;
  readonly wholeDeadlineMs: number;
  /** How long a call may wait its turn while nobody may be asked; 0: not at all. */
  readonly waitMs: number;
}
