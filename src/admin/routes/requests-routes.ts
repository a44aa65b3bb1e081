import { z } from "zod";
import { dollarsNumber } from "../../usage/dollars.ts";
import { keyByIdOrName, keyNames, keyState, type KnownKey } from "../../manage/key-search.ts";
import { operation } from "../views/key-view.ts";
import { learnedAnswer, shownLessons } from "../views/learned-view.ts";
import { shownReceipt } from "../../manage/receipts/receipt-view.ts";
import { receiptAnswer } from "../views/receipt-view.ts";
import { invalid, AdminError } from "../admin-error.ts";
import { route, type AdminRoute } from "../route.ts";
import { previewApis, type Explained, type ExplainedRefusal, type PreviewedSending } from "../services.ts";
import { line } from "../fields/scalars.ts";

export const explainAnswer = z.strictObject({
  outcome: z.enum(["serve", "wait", "refuse"]),
  refusals: z
    .array(z.strictObject({ status: z.int(), code: z.string(), message: z.string() }))
    .describe("All reasons to refuse it; the first is what the client would be told."),
  unknown: z
    .array(z.string())
    .describe("What may refuse it besides, in sentences: spending while the store is away, and limits above the group of the caller."),
  mode: z.enum(["normal", "last_resort"]).nullable(),
  candidates: z
    .array(
      z.strictObject({
        channel: z.string(),
        model: z.string(),
        tier: z.int(),
        weight: z.number(),
        probe: z.boolean().describe("The call would be a probe, which tries whether it works again."),
        priced: z.boolean(),
        learned: learnedAnswer,
      }),
    )
    .describe("In the order in which they would be tried. The order is partly random for each call."),
  skipped: z.array(
    z.strictObject({
      channel: z.string(),
      model: z.string(),
      because: z.string(),
      scope: z.string().nullable(),
      cause: z.string().nullable(),
      for_ms: z.number().nullable(),
    }),
  ),
  retry_after_ms: z.number().nullable(),
  reserve: z
    .strictObject({ tokens: z.number(), cost_usd: z.number().nullable() })
    .nullable()
    .describe("What would be reserved of the key's limits."),
});

export const previewAnswer = explainAnswer.extend({
  sends: z
    .array(
      z.strictObject({
        channel: z.string(),
        model: z.string(),
        refusal: z.string().nullable().describe("Why it cannot be sent there; null if it can."),
        method: z.string(),
        url: z.string().describe("Without the values of its parameters."),
        headers: z.record(z.string(), z.string()).describe("Without the values that may be secret. Credentials are not among them."),
        body: z.string().nullable().describe("Null if there is none to show, such as an upload."),
        translated: z.boolean().describe("The client speaks another API than the upstream."),
        dropped: z.array(z.string()).describe("The fields of the request that are left out."),
        clamped_to: z.number().nullable().describe("What the most output tokens are lowered to; null if they are not."),
      }),
    )
    .describe("What each candidate would be sent, in the same order."),
});

/** One call in detail, and a dry run of a call. */
export const requestsRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/requests/{id}",
    access: "viewer",
    scoped: true,
    summary:
      "Shows one call in full, by its request id or the id of its receipt: which channels were tried, which were not and why, and the cost.",
    answer: receiptAnswer.extend({
      namesakes: z
        .array(z.string())
        .describe("The ids of other calls whose clients chose the same request id, newest first. Each can be requested by its own id."),
    }),
    handle: async ({ params: { id }, services }) => {
      const { receipts } = services.reports;
      const receipt = await receipts.find(id);
      if (receipt === null) return noSuchRequest;
      const names = await keyNames(services, [receipt.keyId], 1);
      return { ...shownReceipt(receipt, names.get(receipt.keyId) ?? null), namesakes: [...(await receipts.namesakes(receipt))] };
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/explain",
    access: "admin",
    scoped: true,
    summary: "Shows what would be done with a request now. Nothing is sent and nothing is counted.",
    body: z.strictObject({
      model: line(512),
      operation,
      key: line(200).optional().describe("The id or the name of a key; without it, no permissions and limits apply."),
      stream: z.boolean().default(false),
      prompt_tokens: z.int().min(0).max(1e9).optional(),
    }),
    answer: explainAnswer,
    handle: async ({ body, services }) => {
      const known = body.key === undefined ? null : await keyByIdOrName(services, body.key);
      if (known === null && body.key !== undefined) return noSuchKey;
      const ended = known === null ? null : endOf(known, services.wallMs());
      if (ended !== null) return shown({ ...nothing, refusals: [ended] });
      return shown(
        await services.explain({
          model: body.model,
          operation: body.operation,
          key: known?.key ?? null,
          stream: body.stream,
          promptTokens: body.prompt_tokens ?? null,
        }),
      );
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/explain/request",
    access: "admin",
    summary:
      "Shows what would be done with a request of a client, and what would be sent upstream. Nothing is sent and nothing is counted.",
    bodyBytesMax: 4 * 1024 * 1024,
    body: z.strictObject({
      api: z.enum(previewApis).describe("The API of the client: `/v1/chat/completions`, `/v1/responses`, `/v1/messages` and so on."),
      request: z.record(z.string().max(200), z.unknown()).describe("As a client would send it."),
      key: line(200).optional().describe("The id or the name of a key; without it, no permissions and limits apply."),
    }),
    answer: previewAnswer,
    handle: async ({ body: { api, request, key }, services }) => {
      const known = key === undefined ? null : await keyByIdOrName(services, key);
      if (known === null && key !== undefined) return noSuchKey;
      const ended = known === null ? null : endOf(known, services.wallMs());
      if (ended !== null) return { ...shown({ ...nothing, refusals: [ended] }), sends: [] };
      const preview = await services.preview({ api, body: new TextEncoder().encode(JSON.stringify(request)), key: known?.key ?? null });
      if ("message" in preview) return { ...shown({ ...nothing, refusals: [preview] }), sends: [] };
      return { ...shown(preview.explained), sends: preview.sendings.map(shownSending) };
    },
  }),
];

/** A revoked or expired key is refused before anything else is checked. */
function endOf(known: KnownKey, nowMs: number): ExplainedRefusal | null {
  const state = keyState(known, nowMs);
  if (state === "active") return null;
  return { status: 401, code: "invalid_api_key", message: state === "revoked" ? "The key is revoked." : "The key has expired." };
}

const nothing: Explained = {
  outcome: "refuse",
  refusals: [],
  unknown: [],
  mode: null,
  candidates: [],
  skipped: [],
  retryAfterMs: null,
  reserve: null,
};

function shown(explained: Explained): z.input<typeof explainAnswer> {
  const { outcome, mode, refusals, unknown, candidates, skipped, retryAfterMs, reserve } = explained;
  return {
    outcome,
    refusals: refusals.map(({ status, code, message }) => ({ status, code, message })),
    unknown: [...unknown],
    mode,
    candidates: candidates.map(({ learned, channel, model, tier, weight, probe, priced }) => ({
      channel,
      model,
      tier,
      weight,
      probe,
      priced,
      learned: shownLessons(learned),
    })),
    skipped: skipped.map(({ channel, model, because, scope, cause, forMs }) => ({ channel, model, because, scope, cause, for_ms: forMs })),
    retry_after_ms: retryAfterMs,
    reserve: reserve === null ? null : { tokens: reserve.tokens, cost_usd: reserve.nanos === null ? null : dollarsNumber(reserve.nanos) },
  };
}

function shownSending({ clampedTo, dropped, headers, ...sending }: PreviewedSending): z.input<typeof previewAnswer>["sends"][number] {
  const { channel, model, refusal, method, url, body, translated } = sending;
  return {
    channel,
    model,
    refusal,
    method,
    url,
    headers: { ...headers },
    body,
    translated,
    dropped: [...dropped],
    clamped_to: clampedTo,
  };
}

const noSuchRequest = new AdminError(
  404,
  "not_found",
  "There is no such request. Receipts are stored a moment after their call has ended, and removed after the time in `receipts.keep`.",
);
const noSuchKey = invalid("key", "The field 'key' names no key: give the id or the name of one.");
