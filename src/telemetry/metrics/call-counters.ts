import type { AttemptRecord, CallRecord } from "../../gateway/settlement/record.ts";
import type { Operation } from "../../operations/operation.ts";
import type { CallFamilies } from "./call-families.ts";
import type { MetricCounter, MetricHistogram } from "./registry.ts";

/** What is counted for one model that clients ask for. */
export class ModelCounters {
  readonly requestBytes: MetricCounter;
  readonly responseBytes: MetricCounter;
  readonly duration: MetricHistogram;
  readonly overhead: MetricHistogram;
  private readonly requests = new Map<number, MetricCounter>();
  private readonly channels = new Map<string, TrafficCounters>();

  constructor(
    private readonly families: CallFamilies,
    private readonly operation: Operation,
    readonly name: string,
  ) {
    this.requestBytes = families.requestBytes.with(operation);
    this.responseBytes = families.responseBytes.with(operation);
    this.duration = families.durations.with(operation, name);
    this.overhead = families.overheads.with(operation);
  }

  request({ status, failure }: CallRecord, outcome: (typeof outcomes)[number]): MetricCounter {
    const blame = failure?.blame ?? "none";
    const key = (status * outcomes.length + outcomes.indexOf(outcome)) * blames.length + blames.indexOf(blame);
    let counter = this.requests.get(key);
    if (counter === undefined) {
      counter = this.families.requests.with(this.operation, this.name, String(status), outcome, blame);
      this.requests.set(key, counter);
    }
    return counter;
  }

  on(channel: string): TrafficCounters {
    let series = this.channels.get(channel);
    if (series === undefined) this.channels.set(channel, (series = new TrafficCounters(this.families, this.operation, this.name, channel)));
    return series;
  }
}

/** What is counted for one model on one channel. Most of it is made when it is needed: a model that speaks has no tokens. */
export class TrafficCounters {
  readonly cost: MetricCounter;
  private text: TokenCounters | null = null;
  private stream: StreamHistograms | null = null;
  private readonly rares = new Map<RareFamily, MetricCounter>();

  constructor(
    private readonly families: CallFamilies,
    private readonly operation: Operation,
    private readonly model: string,
    private readonly channel: string,
  ) {
    this.cost = families.cost.with(model, channel);
  }

  get tokens(): TokenCounters {
    const { tokens } = this.families;
    const kind = (name: string): MetricCounter => tokens.with(this.model, this.channel, name);
    return (this.text ??= { input: kind("input"), cached: kind("cached_input"), output: kind("output"), reasoning: kind("reasoning") });
  }

  get streams(): StreamHistograms {
    const { families, operation, model, channel } = this;
    return (this.stream ??= {
      firstContent: families.firstContents.with(operation, model, channel),
      betweenChunks: families.betweenChunks.with(operation, model, channel),
      longestGap: families.longestGaps.with(operation, model, channel),
    });
  }

  /** Most models have none of these, so each is made when it is first added to. */
  rare(family: RareFamily): MetricCounter {
    let counter = this.rares.get(family);
    if (counter === undefined) this.rares.set(family, (counter = this.families[family].with(this.model, this.channel)));
    return counter;
  }
}

type RareFamily = "audioSeconds" | "characters" | "unpriced";

interface TokenCounters {
  readonly input: MetricCounter;
  readonly cached: MetricCounter;
  readonly output: MetricCounter;
  readonly reasoning: MetricCounter;
}

interface StreamHistograms {
  readonly firstContent: MetricHistogram;
  readonly betweenChunks: MetricHistogram;
  readonly longestGap: MetricHistogram;
}

export class ChannelCounters {
  readonly duration: MetricHistogram;
  private readonly attempts = new Map<string, MetricCounter>();

  constructor(
    private readonly families: CallFamilies,
    private readonly name: string,
  ) {
    this.duration = families.attemptDurations.with(name);
  }

  attempt(outcome: AttemptRecord["outcome"], error: string): MetricCounter {
    // A failure has one outcome, so its kind alone would do but for an attempt that was abandoned without one.
    const key = error === "" ? outcome : error;
    let counter = this.attempts.get(key);
    if (counter === undefined) this.attempts.set(key, (counter = this.families.attempts.with(this.name, outcome, error)));
    return counter;
  }
}

export class KeyCounters {
  readonly requests: MetricCounter;
  readonly cost: MetricCounter;
  readonly input: MetricCounter;
  readonly output: MetricCounter;

  constructor(families: CallFamilies, key: string) {
    this.requests = families.keyRequests.with(key);
    this.cost = families.keyCost.with(key);
    this.input = families.keyTokens.with(key, "input");
    this.output = families.keyTokens.with(key, "output");
  }
}

const outcomes = ["complete", "failed", "interrupted", "abandoned", "refused"] as const;
const blames: readonly string[] = ["none", "client", "channel", "gateway"];
