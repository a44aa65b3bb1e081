import type { NumberedReport, ReportTopic } from "../../cli/process/worker-messages.ts";
import type { MetricsSettings } from "../../config/settings.ts";
import type { Candidate } from "../../channels/channel.ts";
import type { UpstreamState } from "../../gateway/upstream-state/upstream-state.ts";
import type { Snapshot } from "../../gateway/snapshot.ts";
import { shownAs } from "../../http/errors.ts";
import { CallMetrics } from "../../telemetry/metrics/call-metrics.ts";
import { exposition } from "../../telemetry/metrics/exposition.ts";
import { joinedFamilies, ofWorker, plainGauge, type MetricFamily } from "../../telemetry/metrics/family.ts";
import { MetricRegistry } from "../../telemetry/metrics/registry.ts";
import {
  budgetFamilies,
  stateFamilies,
  type BudgetState,
  type ChannelState,
  type GatewayState,
} from "../../telemetry/metrics/state-metrics.ts";

/** The other workers of this gateway. */
export interface OtherWorkers {
  /** The number of this worker, from 1. */
  readonly number: number;
  readonly count: number;
  reports(about: ReportTopic): Promise<readonly NumberedReport[]>;
  onReportWanted(about: ReportTopic, make: () => string): void;
  /** Frees what another worker held, which has ended. */
  onEnded(free: (member: string) => Promise<void>): void;
}

export interface MetricsOptions {
  readonly settings: MetricsSettings;
  readonly others: OtherWorkers | null;
  /** Whether a channel lists the model. */
  readonly isListed: (model: string) => boolean;
  /** Counts the calls that wait to be counted. */
  readonly flush: () => void;
  readonly state: () => GatewayState;
  readonly budgets: () => readonly BudgetState[];
  /** What other parts count about themselves. */
  readonly more: () => readonly MetricFamily[];
}

/** The metrics of this gateway. A scrape shows those of all its workers, whichever of them it reaches. */
export class Metrics {
  readonly calls: CallMetrics;

  constructor(private readonly options: MetricsOptions) {
    this.calls = new CallMetrics(new MetricRegistry(options.isListed), options.settings.keyLabels, (failure) => shownAs(failure).code);
    options.others?.onReportWanted("metrics", () => JSON.stringify(this.own()));
  }

  async text(): Promise<string> {
    return exposition(await this.families());
  }

  /** What this process exports: its own metrics and, where it is the one that does so for all workers, those that they share. */
  exported(isLeader: boolean): readonly MetricFamily[] {
    return isLeader ? [...this.own(), ...this.shared()] : this.own();
  }

  /** The metrics of this process. */
  private own(): readonly MetricFamily[] {
    const { flush, state, more } = this.options;
    flush();
    return [...this.calls.registry.collect(), ...stateFamilies(state()), ...more()];
  }

  /** What calls have counted in all workers. */
  async counted(): Promise<readonly MetricFamily[]> {
    return this.options.others === null ? this.own() : this.families();
  }

  private async families(): Promise<readonly MetricFamily[]> {
    const { others } = this.options;
    if (others === null) return [...this.own(), ...this.shared()];
    const reports = await others.reports("metrics");
    const lists = reports.map(({ worker, report }) => ofWorker(JSON.parse(report) as MetricFamily[], worker));
    return [
      ...joinedFamilies([ofWorker(this.own(), others.number), ...lists]),
      plainGauge("sluice_workers", "The number of worker processes.", others.count),
      plainGauge("sluice_workers_reporting", "How many of them are part of this scrape.", reports.length + 1),
      ...this.shared(),
    ];
  }

  private shared(): readonly MetricFamily[] {
    return budgetFamilies(this.options.budgets());
  }
}

/** The channels of a snapshot, in one pass over its routes. Those that take any model are in none. */
export function channelStates({ channels, routes, wildcard }: Snapshot, upstreams: UpstreamState): readonly ChannelState[] {
  const candidates = new Map<string, Candidate[]>();
  for (const { tiers } of routes.values()) {
    for (const members of tiers) {
      for (const candidate of members) {
        const { name } = candidate.deployment.channel;
        const ofChannel = candidates.get(name);
        if (ofChannel === undefined) candidates.set(name, [candidate]);
        else ofChannel.push(candidate);
      }
    }
  }
  const asked = wildcard === null ? null : upstreams.askedModels();
  return channels.map((channel) => {
    const { name, concurrencyMax } = channel;
    const own = candidates.get(name) ?? (asked === null ? [] : upstreams.knownModelCandidates(channel, asked));
    const breakers = upstreams.openBreakers(own);
    return {
      name,
      running: upstreams.running(name),
      runningMax: concurrencyMax,
      // A full channel cools down just as little as one that lists no models.
      isAvailable: own.length === 0 || breakers.length === 0 || own.some((candidate) => upstreams.isHealthy(candidate)),
      isProven: own.length === 0 || breakers.length === 0 || own.some((candidate) => upstreams.openBreakers([candidate]).length === 0),
      openBreakers: breakers.filter(({ state }) => state === "open").length,
      halfOpenBreakers: breakers.filter(({ state }) => state === "half_open").length,
    };
  });
}
