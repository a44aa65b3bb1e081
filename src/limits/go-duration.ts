/** A duration as the `x-ratelimit-reset-…` headers spell it: `0s`, `12ms`, `1.2s`, `6m0s`, `1h0m0s`. Rounded up to a millisecond. */
export function goDuration(ms: number): string {
  const whole = ms > 0 ? Math.min(Math.ceil(ms), Number.MAX_SAFE_INTEGER) : 0;
  if (whole === 0) return "0s";
  if (whole < 1_000) return `${whole}ms`;
  const hours = Math.floor(whole / 3_600_000);
  const minutes = Math.floor(whole / 60_000) % 60;
  const seconds = `${(whole % 60_000) / 1_000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
