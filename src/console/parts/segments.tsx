/** An attempt of a call, as the admin API shows it. */
export interface AttemptSegment {
  readonly channel: string;
  readonly after_ms: number;
  readonly took_ms: number;
  readonly outcome: string;
}

/** The attempts of a call beside each other, each as long as it took. */
export function Segments({ attempts }: { readonly attempts: readonly AttemptSegment[] }) {
  const whole = Math.max(1, ...attempts.map(({ after_ms, took_ms }) => after_ms + took_ms));
  return (
    <span class="segments">
      <span class="track">
        {attempts.map(({ after_ms, took_ms, outcome, channel }, at) => (
          <i
            key={at}
            class={outcome}
            title={channel}
            style={{ left: `${(100 * after_ms) / whole}%`, width: `${Math.max(2, (100 * took_ms) / whole)}%` }}
          />
        ))}
      </span>
      <span class="small shorten">{attempts.map(({ channel }) => channel).join(" → ")}</span>
    </span>
  );
}
