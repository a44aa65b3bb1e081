/**
 * How many retries may be under way into one channel at once: a fifth of the calls in flight, and three in any case. What
 * failed elsewhere must not fall on a channel all at once, or it fails next.
 */
export function retriesMax(inFlight: number): number {
  return Math.max(retriesMin, Math.floor(share * inFlight));
}

const share = 0.2;
const retriesMin = 3;
