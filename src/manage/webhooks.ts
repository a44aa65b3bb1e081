import type { Actor } from "../gateway/storage.ts";
import { isoMoment } from "../usage/time-text.ts";
import type { ManageContext } from "./context.ts";
import { ManageError } from "./error.ts";

/** The webhooks of this process, in the order of the configuration. Another worker may be the one that tells. */
export interface RunningWebhooks {
  readonly list: () => readonly WebhookStatus[];
  /** Sends one notice of the type `test`, once. Null if there is no such webhook. It has a time limit and does not reject. */
  readonly test: (at: number) => Promise<WebhookDelivery | null>;
}

export interface WebhookStatus {
  /** Without its path, which is a secret of many receivers. */
  readonly origin: string;
  readonly types: readonly string[];
  readonly waiting: number;
  readonly delivered: number;
  /** Given up, or left out because too many waited. */
  readonly lost: number;
  /** The last ones, newest first. */
  readonly deliveries: readonly WebhookDelivery[];
}

/** One request to a receiver. */
export interface WebhookDelivery {
  readonly atMs: number;
  readonly type: string;
  /** Null if there was no answer. */
  readonly status: number | null;
  readonly ok: boolean;
}

export interface WebhookContext extends ManageContext {
  readonly webhooks: RunningWebhooks;
}

export async function testWebhook({ webhooks, storage }: WebhookContext, at: number, actor: Actor): Promise<WebhookDelivery | ManageError> {
  const webhook = webhooks.list()[at];
  const delivery = webhook === undefined ? null : await webhooks.test(at);
  if (webhook === undefined || delivery === null) return new ManageError("not_found", "There is no such webhook.");
  await storage.audit.note("webhook.test", webhook.origin, { status: delivery.status }, actor);
  return delivery;
}

export function deliveryView({ atMs, type, status, ok }: WebhookDelivery) {
  return { sent_at: isoMoment(atMs), type, status, ok };
}
