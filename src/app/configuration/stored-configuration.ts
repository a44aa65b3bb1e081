import { readRuntimeChannel } from "../../config/runtime-channel.ts";
import type { ChannelSetting } from "../../config/settings.ts";
import type { BlockedSubject, StoredChannel } from "../../gateway/storage.ts";
import type { Durable } from "../durable.ts";
import type { Log } from "../../telemetry/log.ts";
import type { Price } from "../../usage/price.ts";

/** Rules for channels that are added at run time. */
export type RuntimeRules = Parameters<typeof readRuntimeChannel>[2];

/** The channels, the prices and the blocked subjects in the store. */
export class StoredConfiguration {
  channels: readonly ChannelSetting[] = [];
  prices: readonly Price[] = [];
  blockedSubjects: readonly BlockedSubject[] = [];
  /** The version of the channels that were read, and the rules for them. */
  private versionRead = "";
  private rulesRead = "";
  /** By name, as they are in the store, and what became of them: thousands of channels are not read again because of one. */
  private opened: ReadonlyMap<string, OpenedChannel> = new Map();
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
    // Read first, so that what changes from now on is found by the next read.
    const version = await storage.channels.version();
    const rules = this.rules();
    const rulesText = JSON.stringify(rules);
    // Most changes are about keys.
    const rows = version === this.versionRead && rulesText === this.rulesRead ? null : await storage.channels.list();
    const prices = await storage.prices.list();
    const blockedSubjects = await storage.blockedSubjects.list();
    // Two reads may overlap, and must not be applied in the wrong order.
    if (read < this.newestApplied) return false;
    this.newestApplied = read;
    this.prices = prices;
    this.blockedSubjects = blockedSubjects;
    if (rows === null) return rulesText === this.rulesRead ? false : this.read();
    const before = rulesText === this.rulesRead ? this.opened : new Map<string, OpenedChannel>();
    this.versionRead = version;
    this.rulesRead = rulesText;
    const opened = new Map<string, OpenedChannel>();
    let reused = 0;
    for (const row of rows) {
      const text = JSON.stringify(row);
      const known = before.get(row.name);
      // A broken channel is not logged again.
      if (known?.text === text) reused += 1;
      opened.set(row.name, known?.text === text ? known : { text, setting: this.open(row, rules) });
    }
    if (reused === opened.size && reused === this.opened.size) return false;
    this.opened = opened;
    this.channels = Array.from(opened.values(), ({ setting }) => setting).filter((setting) => setting !== null);
    return true;
  }

  private open({ name, entry, sealed }: StoredChannel, rules: RuntimeRules): ChannelSetting | null {
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

interface OpenedChannel {
  readonly text: string;
  /** Null if it cannot be used. */
  readonly setting: ChannelSetting | null;
}
