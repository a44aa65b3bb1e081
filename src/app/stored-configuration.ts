import { readRuntimeChannel } from "../config/runtime-channel.ts";
import type { ChannelSetting } from "../config/settings.ts";
import type { BlockedSubject, StoredChannel } from "../gateway/storage.ts";
import type { Durable } from "./durable.ts";
import type { Log } from "../telemetry/log.ts";
import type { Price } from "../usage/price.ts";

/** Rules for channels that are added at run time. */
export type RuntimeRules = Parameters<typeof readRuntimeChannel>[2];

/** The channels, the prices and the blocked subjects in the store. */
export class StoredConfiguration {
  channels: readonly ChannelSetting[] = [];
  prices: readonly Price[] = [];
  blockedSubjects: readonly BlockedSubject[] = [];
  /** Changes when the channels change. */
  private fingerprint = "";
  private reads = 0;
  private newestApplied = 0;

  constructor(
    private readonly durable: Pick<Durable, "storage" | "channelSecrets">,
    private readonly log: Pick<Log, "error">,
    private readonly rules: () => RuntimeRules,
    /** Receives the secrets of each channel. */
    private readonly rememberSecrets: (channel: ChannelSetting, secrets: ReadonlyMap<string, string>) => void,
  ) {}

  /** Reads everything, and returns whether the channels have changed. A channel that cannot be used is logged and left out. */
  async read(): Promise<boolean> {
    const { storage } = this.durable;
    const read = ++this.reads;
    const rows = await storage.channels.list();
    const prices = await storage.prices.list();
    const blockedSubjects = await storage.blockedSubjects.list();
    // Two reads may overlap, and must not be applied in the wrong order.
    if (read < this.newestApplied) return false;
    this.newestApplied = read;
    this.prices = prices;
    this.blockedSubjects = blockedSubjects;
    const rules = this.rules();
    const fingerprint = JSON.stringify([rows, rules]);
    // Most changes are about keys, and must not log the same broken channel again.
    if (fingerprint === this.fingerprint) return false;
    this.fingerprint = fingerprint;
    this.channels = rows.flatMap((row) => this.opened(row, rules) ?? []);
    return true;
  }

  private opened({ name, entry, sealed }: StoredChannel, rules: RuntimeRules): ChannelSetting | null {
    const opened = sealed === null ? [] : this.durable.channelSecrets.decrypt(name, sealed);
    if ("kind" in opened) {
      this.log.error("channel_sealed", { channel: name, detail: opened.message });
      return null;
    }
    const reading = readRuntimeChannel({ ...entry, name }, opened, rules);
    if (!reading.ok) {
      this.log.error("channel_unusable", { channel: name, problems: reading.problems.map(({ path, message }) => `${path}: ${message}`) });
      return null;
    }
    this.rememberSecrets(reading.setting, new Map(reading.secrets));
    return reading.setting;
  }
}
