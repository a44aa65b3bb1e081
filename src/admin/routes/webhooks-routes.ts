import { z } from "zod";
import { ManageError } from "../../manage/error.ts";
import { deliveryView, testWebhook } from "../../manage/webhooks.ts";
import { moment } from "../fields/scalars.ts";
import { adminErrorOf } from "../admin-error.ts";
import { route, type AdminRoute } from "../route.ts";

const deliveryAnswer = z.strictObject({
  sent_at: moment,
  type: z.string(),
  status: z.int().nullable().describe("Null if there was no answer."),
  ok: z.boolean(),
});

export const webhookAnswer = z.strictObject({
  number: z.int().describe("Its place in the configuration, from 1."),
  origin: z.string().describe("Where it is, without its path, which is a secret of many receivers."),
  events: z.array(z.string()),
  waiting: z.int(),
  delivered: z.int(),
  lost: z.int().describe("Given up, or left out because too many waited."),
  deliveries: z.array(deliveryAnswer).describe("The last 20 requests since the start, newest first."),
});

/** The webhooks of the configuration. */
export const webhooksRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/webhooks",
    access: "viewer",
    summary: "Lists the webhooks of the configuration, with what this process sent to each since its start.",
    answer: z.strictObject({ webhooks: z.array(webhookAnswer) }),
    handle: ({ services }) => ({
      webhooks: services.webhooks.list().map(({ types, deliveries, ...status }, at) => ({
        number: at + 1,
        ...status,
        events: [...types],
        deliveries: deliveries.map(deliveryView),
      })),
    }),
  }),
  route({
    method: "POST",
    path: "/admin/api/webhooks/{number}/test",
    access: "admin",
    summary: "Sends a signed notice of the type `test` to a webhook, once, and tells how it answered.",
    answer: deliveryAnswer,
    handle: async ({ params, services, actor }) => {
      const at = /^[1-9]\d{0,3}$/.test(params.number) ? Number(params.number) - 1 : -1;
      const delivery = await testWebhook(services, at, actor);
      return delivery instanceof ManageError ? adminErrorOf(delivery) : deliveryView(delivery);
    },
  }),
];
