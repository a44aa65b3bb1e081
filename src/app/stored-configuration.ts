import { readRuntimeChannel } from "../config/runtime-channel.ts";
import type { ChannelSetting } from "../config/settings.ts";
import type { StoredChannel } from "../gateway/storage.ts";
import type { Durable } from "./durable.ts";
import type { Log } from "../telemetry/log.ts";
import type { Price } from "../usage/price.ts";

/** What a channel that is made at run time may be. */
export type RuntimeRules = Parameters<typeof readRuntimeChannel>[2];

/** The channels and prices that were made at run time, as the store has them. */
export class RuntimeMade {
  channels: readonly ChannelSetting[] = [];
  prices: readonly Price[] = [];
  /** Another one where the channels are others. */
  private mark = "";
  private turn = 0;
  private seen = 0;

  constructor(
    private readonly durable: Pick<Durable, "storage" | "channelSecrets">,
    private readonly log: Pick<Log, "error">,
    private readonly rules: () => RuntimeRules,
    /** Told what each channel is opened with. */
    private readonly keepSecrets: (channel: ChannelSetting, secrets: ReadonlyMap<string, string>) => void,
  ) {}

  /** Reads all of it, and says whether the channels are others than before. One that cannot be used is named in the log, and the others are. */
  async read(): Promise<boolean> {
    const { storage } = this.durable;
    const turn = ++this.turn;
    const rows = await storage.channels.list();
    const prices = await storage.prices.list();
    // Two may read at once, and the one that began first need not be done first.
    if (turn < this.seen) return false;
    this.seen = turn;
    this.prices = prices;
    const rules = this.rules();
    const mark = JSON.stringify([rows, rules]);
    // Most changes are of keys: channels are not read and complained of once more for each.
    if (mark === this.mark) return false;
    this.mark = mark;
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
    this.keepSecrets(reading.setting, new Map(reading.secrets));
    return reading.setting;
  }
}
