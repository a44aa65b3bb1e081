/** The signals that end the gateway: at the first it lets calls end, at the second it does not wait for them. */
export const endSignals = ["SIGTERM", "SIGINT"] as const;
export type EndSignal = (typeof endSignals)[number];

/**
 * Calls `stop` at each of them. npm passes a signal on to the program that it runs, which has it already where the terminal or the
 * supervisor has sent it to the whole group: under npm, two of a kind within a moment are one, and do not end what is still running.
 */
export function onEndSignals(
  own: Pick<NodeJS.Process, "on" | "env">,
  stop: (signal: EndSignal) => void,
  nowMs = (): number => performance.now(),
): void {
  const isUnderNpm = own.env["npm_lifecycle_event"] !== undefined;
  for (const signal of endSignals) {
    let lastMs = Number.NEGATIVE_INFINITY;
    own.on(signal, () => {
      const isCopy = isUnderNpm && nowMs() - lastMs < copyWithinMs;
      lastMs = nowMs();
      if (!isCopy) stop(signal);
    });
  }
}

/** npm takes a millisecond or two, on a machine that is not starved. Nobody presses a key twice as quickly. */
const copyWithinMs = 250;
