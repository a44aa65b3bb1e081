/** How hard the gateway tries, as the operator set it. */
export interface RoutingPolicy {
  readonly attemptsMax: number;
  /** `auto`: by what is usual for the deployment; `null`: hedging is off. */
  readonly hedgeAfterMs: number | "auto" | null;
  /** Where a stream that broke off may be continued: on channels with the same upstream model, on all of the route, or nowhere. */
  readonly rescue: "auto" | "continue" | "error";
  /** Everything before the first content, over all attempts. */
  readonly streamDeadlineMs: number;
  readonly wholeDeadlineMs: number;
  /** How long a call may wait its turn while nobody may be asked; 0: not at all. */
  readonly waitMs: number;
}
