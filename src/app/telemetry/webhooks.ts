import type { Storage } from "../../gateway/storage.ts";
import type { Key } from "../../keys/key.ts";
import type { BudgetState, ChannelState } from "../../telemetry/metrics/state-metrics.ts";
import { budgetNotices, ChannelWatch, costNotices, expiryNotices } from "../../telemetry/webhooks/notices.ts";
import { WebhookSender, type WebhookPorts, type WebhookSettings } from "../../telemetry/webhooks/webhook-sender.ts";

export interface WebhooksOptions extends WebhookPorts {
  readonly webhooks: readonly WebhookSettings[];
  readonly channels: () => readonly ChannelState[];
  /** For long queries, which do not delay calls. */
  readonly reports: Storage;
}

/** Watches what operators want to hear of, and tells it to their webhooks. One of several workers does it for all. */
export class Webhooks {
  private readonly sender: WebhookSender;
  private readonly channelWatch = new ChannelWatch(crypto.randomUUID());
  private timer: ReturnType<typeof setInterval> | null = null;

  constructor(private readonly options: WebhooksOptions) {
    this.sender = new WebhookSender(options.webhooks, options);
  }

  start(): void {
    if (!this.sender.wants("channel.down") && !this.sender.wants("channel.up")) return;
    this.timer = setInterval(() => this.sender.tell(this.channelWatch.look(this.options.channels())), channelsMs);
    this.timer.unref();
  }

  list(): ReturnType<WebhookSender["status"]> {
    return this.sender.status();
  }

  families(): ReturnType<WebhookSender["families"]> {
    return this.sender.families();
  }

  test(at: number): ReturnType<WebhookSender["test"]> {
    return this.sender.test(at);
  }

  /** Announces what a check of budgets and keys has found. Called once a minute. */
  async announce(budgets: readonly BudgetState[], keys: readonly Key[]): Promise<void> {
    const { sender, options } = this;
    sender.tell([...budgetNotices(budgets), ...expiryNotices(keys, options.wallMs())]);
    if (sender.wants("cost.jump")) sender.tell(await this.costs());
  }

  async stop(): Promise<void> {
    if (this.timer !== null) clearInterval(this.timer);
    await this.sender.stop();
  }

  /** Gives up what receivers do not have yet: the process ends and waits no longer. */
  abandon(): void {
    this.sender.abandon();
  }

  private async costs(): Promise<ReturnType<typeof costNotices>> {
    const thisHourMs = Math.floor(this.options.wallMs() / hourMs) * hourMs;
    const span = { sinceMs: thisHourMs - 25 * hourMs, untilMs: thisHourMs };
    const rows = await this.options.reports.receipts.usage({ by: ["hour"], ...span, keyId: null, model: null, channel: null });
    const hours = rows.map(({ group, nanos }) => ({ atMs: Date.parse(group.hour ?? ""), nanos }));
    return costNotices(hours, thisHourMs - hourMs);
  }
}

const hourMs = 3_600_000;
const channelsMs = 5_000;
