import type { CounterFamily, HistogramFamily, MetricRegistry } from "./registry.ts";

/** The metrics that calls add to. */
export interface CallFamilies {
  readonly requests: CounterFamily;
  readonly refusals: CounterFamily;
  readonly requestBytes: CounterFamily;
  readonly responseBytes: CounterFamily;
  readonly durations: HistogramFamily;
  readonly firstContents: HistogramFamily;
  readonly betweenChunks: HistogramFamily;
  readonly longestGaps: HistogramFamily;
  readonly overheads: HistogramFamily;
  readonly attempts: CounterFamily;
  readonly attemptDurations: HistogramFamily;
  readonly failovers: CounterFamily;
  readonly retries: CounterFamily;
  readonly hedges: CounterFamily;
  readonly rescues: CounterFamily;
  readonly tokens: CounterFamily;
  readonly audioSeconds: CounterFamily;
  readonly characters: CounterFamily;
  readonly cost: CounterFamily;
  readonly unpriced: CounterFamily;
  readonly hedgeWaste: CounterFamily;
  readonly keyRequests: CounterFamily;
  readonly keyTokens: CounterFamily;
  readonly keyCost: CounterFamily;
}

export function callFamilies(registry: MetricRegistry): CallFamilies {
  return {
    requests: registry.counters(
      "sluice_requests_total",
      "Requests, by how they ended. `blame` says who must act on a failure: the client, the channel or the gateway.",
      ["operation", "model", "status", "outcome", "blame"],
    ),
    refusals: registry.counters("sluice_refusals_total", "Requests that were answered with an error before any upstream was asked.", [
      "operation",
      "reason",
    ]),
    requestBytes: registry.counters("sluice_request_bytes_total", "Bytes of the bodies of admitted requests.", ["operation"]),
    responseBytes: registry.counters("sluice_response_bytes_total", "Bytes of answers that were sent to clients.", ["operation"]),
    durations: registry.histograms(
      "sluice_request_duration_seconds",
      "From an admitted request to the end of its answer.",
      ["operation", "model"],
      durationBounds,
    ),
    firstContents: registry.histograms(
      "sluice_time_to_first_content_seconds",
      "From a request to the first content of its stream, by the channel that began the answer.",
      ["operation", "model", "channel"],
      durationBounds,
    ),
    betweenChunks: registry.histograms(
      "sluice_time_between_chunks_seconds",
      "The mean time between two chunks of a stream, observed once for each stream.",
      ["operation", "model", "channel"],
      chunkBounds,
    ),
    longestGaps: registry.histograms(
      "sluice_longest_gap_seconds",
      "The longest time between two chunks of a stream, observed once for each stream. Time in which its client took nothing is left out.",
      ["operation", "model", "channel"],
      durationBounds,
    ),
    overheads: registry.histograms(
      "sluice_gateway_overhead_seconds",
      "The gateway's own part of a call: no attempt was running, its client had sent the request, and it did not wait in a queue or after a failure.",
      ["operation"],
      overheadBounds,
    ),
    attempts: registry.counters("sluice_attempts_total", "Requests to upstreams.", ["channel", "outcome", "error"]),
    attemptDurations: registry.histograms(
      "sluice_attempt_duration_seconds",
      "From the beginning of an attempt to its end, which for a stream is the end of the stream.",
      ["channel"],
      durationBounds,
    ),
    failovers: registry.counters("sluice_failovers_total", "Attempts on another channel after one that failed without output.", [
      "from",
      "to",
    ]),
    retries: registry.counters("sluice_retries_total", "Attempts on the same channel after one that failed without output.", ["channel"]),
    hedges: registry.counters("sluice_hedges_total", "Second attempts beside a slow one.", ["channel", "outcome"]),
    rescues: registry.counters("sluice_rescues_total", "Attempts to go on with an answer that had broken off.", ["channel", "outcome"]),
    tokens: registry.counters(
      "sluice_tokens_total",
      "Tokens of all attempts. `input` includes `cached_input`, and `output` includes `reasoning`.",
      ["model", "channel", "kind"],
    ),
    audioSeconds: registry.counters("sluice_audio_seconds_total", "Seconds of audio that were transcribed.", ["model", "channel"]),
    characters: registry.counters("sluice_characters_total", "Characters that were spoken.", ["model", "channel"]),
    cost: registry.counters("sluice_cost_usd_total", "What upstreams charge for all attempts, in US dollars.", ["model", "channel"], 1e-9),
    unpriced: registry.counters("sluice_unpriced_attempts_total", "Attempts whose price is not known.", ["model", "channel"]),
    hedgeWaste: registry.counters("sluice_hedge_waste_usd_total", "The cost of hedges that were not used, in US dollars.", ["model"], 1e-9),
    keyRequests: registry.counters("sluice_key_requests_total", "Admitted requests of a key.", ["key"]),
    keyTokens: registry.counters("sluice_key_tokens_total", "Tokens of a key.", ["key", "kind"]),
    keyCost: registry.counters("sluice_key_cost_usd_total", "What the calls of a key cost, in US dollars.", ["key"], 1e-9),
  };
}

const durationBounds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320];
const chunkBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const overheadBounds = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30];
