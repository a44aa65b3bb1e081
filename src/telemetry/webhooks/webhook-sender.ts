import { createHash, createHmac } from "node:crypto";
import { DeliveryQueue, endedReason, type DeliveryResult } from "../delivery-queue.ts";
import type { MetricFamily } from "../metrics/family.ts";
import type { OtlpPorts, PostOutcome } from "../otlp/otlp-exporter.ts";
import type { Notice, NoticeType } from "./notices.ts";

export interface WebhookSettings {
  readonly url: string;
  readonly secret: string;
  readonly types: readonly NoticeType[];
}

export interface WebhookPorts extends Pick<OtlpPorts, "post" | "after" | "dice" | "wallMs"> {
  /** `types`: of the notices that were lost, each once; `notices`: how many these are. */
  readonly onLoss: (webhook: string, reason: string, types: readonly string[], notices: number) => void;
}

/**
 * Sends notices to webhooks, signed as https://github.com/standard-webhooks/standard-webhooks describes, and tries again for a while
 * where that fails. A notice is sent to each of them once, however often it is told here; one that was lost because the receiver was away
 * is sent when it is told again.
 */
export class WebhookSender {
  private readonly queues: readonly WebhookQueue[];

  constructor(
    webhooks: readonly WebhookSettings[],
    private readonly ports: WebhookPorts,
  ) {
    this.queues = webhooks.map(({ url, secret, types }) => {
      const { host, origin } = new URL(url);
      const sent: SentNotice[] = [];
      const told = new Set<string>();
      let isRefused = false;
      const send = async (notice: QueuedNotice): Promise<PostOutcome> => {
        const outcome = await this.send(notice, url, secret);
        sent.unshift({ atMs: ports.wallMs(), type: notice.type, status: outcome.status, ok: deliveryOf(outcome).kind === "delivered" });
        sent.length = Math.min(sent.length, sentMax);
        return outcome;
      };
      const deliver = async (notice: QueuedNotice): Promise<DeliveryResult> => {
        const result = deliveryOf(await send(notice));
        isRefused = result.kind === "refused";
        return result;
      };
      const queue = new DeliveryQueue<QueuedNotice>({
        deliver: async ([notice]) => (notice === undefined ? nothing : deliver(notice)),
        onLoss: (count, reason, notices) => {
          // What the receiver does not want is not sent to it again.
          if (!isRefused) for (const { id } of notices) told.delete(id);
          ports.onLoss(host, reason, [...new Set(notices.map(({ type }) => type))], count);
        },
        after: ports.after,
        dice: ports.dice,
        waitingMax,
        batchMax: 1,
        batchMs: 0,
        triesMax,
      });
      return { host, origin, types, queue, sent, told, send };
    });
  }

  /** What became of the notices since the start. */
  status() {
    return this.queues.map(({ origin, types, queue, sent }) => ({
      origin,
      types,
      waiting: queue.size,
      delivered: queue.delivered,
      lost: queue.failed + queue.dropped,
      deliveries: [...sent],
    }));
  }

  /** How the sending itself goes, by the number that a webhook has in the configuration, from 1. */
  families(): readonly MetricFamily[] {
    const counter = (name: string, help: string, count: (queue: WebhookQueue["queue"]) => number): MetricFamily => ({
      name,
      help,
      type: "counter",
      labels: ["webhook"],
      series: this.queues.map(({ queue }, at) => ({ labels: [String(at + 1)], value: count(queue) })),
    });
    return [
      counter("sluice_webhook_delivered_total", "Notices that a webhook has taken.", ({ delivered }) => delivered),
      counter(
        "sluice_webhook_lost_total",
        "Notices that a webhook refused or was away for too long for.",
        ({ failed, dropped }) => failed + dropped,
      ),
    ];
  }

  /** Sends a notice to one webhook, past its queue and once, to show whether it can be reached. */
  async test(at: number): Promise<SentNotice | null> {
    const queue = this.queues[at];
    if (queue === undefined) return null;
    const atMs = this.ports.wallMs();
    await queue.send({ id: `test:${at}:${atMs}`, type: "test", data: { message: "This is a test." }, atMs });
    return queue.sent[0] ?? null;
  }

  wants(type: NoticeType): boolean {
    return this.queues.some(({ types }) => types.includes(type));
  }

  tell(notices: readonly Notice[]): void {
    const dropped = new Map<WebhookQueue, string[]>();
    for (const notice of notices) {
      const queued = { ...notice, atMs: this.ports.wallMs() };
      for (const webhook of this.queues) {
        const { types, told, queue } = webhook;
        if (!types.includes(notice.type) || told.has(notice.id)) continue;
        if (queue.offer(queued)) {
          remember(told, notice.id);
          continue;
        }
        const missed = dropped.get(webhook);
        if (missed === undefined) dropped.set(webhook, [notice.type]);
        else missed.push(notice.type);
      }
    }
    // One line for all of them: a receiver that is gone has hundreds waiting already.
    for (const [{ host, queue }, missed] of dropped) {
      const reason = queue.isClosed ? endedReason : `more than ${waitingMax} notices wait for the receiver`;
      this.ports.onLoss(host, reason, [...new Set(missed)], missed.length);
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.queues.map(({ queue }) => queue.stop(endedReason)));
  }

  /** Gives up what is left, also what is on its way: the process ends and waits no longer. */
  abandon(): void {
    for (const { queue } of this.queues) queue.abandon();
  }

  private send({ id, type, data, atMs }: QueuedNotice, url: string, secret: string): Promise<PostOutcome> {
    const body = JSON.stringify({ type, timestamp: new Date(atMs).toISOString(), data });
    const message = { id: messageId(id), seconds: Math.floor(this.ports.wallMs() / 1000), body };
    return this.ports.post(url, { "content-type": "application/json", ...signatureHeaders(message, secret) }, body);
  }
}

interface QueuedNotice extends Omit<Notice, "type"> {
  readonly type: NoticeType | "test";
  readonly atMs: number;
}

/** One request to a receiver. */
export interface SentNotice {
  readonly atMs: number;
  readonly type: string;
  /** Null if there was no answer. */
  readonly status: number | null;
  readonly ok: boolean;
}

interface WebhookQueue {
  readonly host: string;
  /** Without the path, which is a secret of many receivers. */
  readonly origin: string;
  readonly types: readonly NoticeType[];
  readonly queue: DeliveryQueue<QueuedNotice>;
  /** The last requests, newest first. */
  readonly sent: readonly SentNotice[];
  /** The ids of the notices that wait for it, that it has, or that it refused. */
  readonly told: Set<string>;
  readonly send: (notice: QueuedNotice) => Promise<PostOutcome>;
}

function remember(told: Set<string>, id: string): void {
  const [oldest] = told;
  if (told.size >= toldMax && oldest !== undefined) told.delete(oldest);
  told.add(id);
}

/** An id of a fixed form: names of keys and channels may contain what the header and the signature must not. */
function messageId(id: string): string {
  return `msg_${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}

/** A secret that begins with `whsec_` is base64, as the standard has it; any other is used as it is. */
export function signatureHeaders(
  { id, seconds, body }: { readonly id: string; readonly seconds: number; readonly body: string },
  secret: string,
): Readonly<Record<string, string>> {
  const key = secret.startsWith(secretPrefix) ? Buffer.from(secret.slice(secretPrefix.length), "base64") : Buffer.from(secret);
  const signature = createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": String(seconds), "webhook-signature": `v1,${signature}` };
}

/** A receiver that answers with 410 or another refusal does not want it; redirects are not followed. */
function deliveryOf({ status, retryAfterMs, reason }: PostOutcome): DeliveryResult {
  if (status === null) return { kind: "retry", afterMs: null, reason };
  if (status >= 200 && status < 300) return nothing;
  const answered = `the receiver answered with ${status}`;
  if (status === 408 || status === 425 || status === 429 || status >= 500)
    return { kind: "retry", afterMs: retryAfterMs, reason: answered };
  return { kind: "refused", reason: answered };
}

const nothing = { kind: "delivered", rejected: 0, reason: "" } as const;
const secretPrefix = "whsec_";
const waitingMax = 500;
const sentMax = 20;
const toldMax = 10_000;
/** Over a little more than ten minutes. */
const triesMax = 16;
