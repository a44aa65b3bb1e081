import type { z } from "zod";
import type { webhookAnswer } from "../../../admin/routes/webhooks-routes.ts";
import { ask, mayChange } from "../../core/api.ts";
import { useLoaded } from "../../core/query.ts";
import { useSubmission } from "../../core/submit.ts";
import { Moment } from "../../parts/moment.tsx";
import { Badge, EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { DataTable } from "../../parts/table.tsx";
import { SettingsFrame } from "./settings.tsx";

type WebhookAnswer = z.output<typeof webhookAnswer>;

/** Where notices are sent, and how that went. */
export function WebhooksPage() {
  const loaded = useLoaded<{ readonly webhooks: readonly WebhookAnswer[] }>("/webhooks", {}, { everyMs: 10_000 });
  const webhooks = loaded.data.value?.webhooks ?? null;
  return (
    <SettingsFrame title="Webhooks">
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {webhooks !== null && webhooks.length === 0 && (
        <EmptyState title="There is no webhook">
          <p>
            Webhooks tell you of spent budgets, channels that go down, keys that expire and costs that jump. Add one under{" "}
            <code>webhooks</code> in the configuration file.
          </p>
        </EmptyState>
      )}
      {webhooks?.map((webhook) => (
        <Webhook key={webhook.number} webhook={webhook} onSent={() => loaded.reload()} />
      ))}
    </SettingsFrame>
  );
}

function Webhook({ webhook, onSent }: { readonly webhook: WebhookAnswer; readonly onSent: () => void }) {
  const { number, origin, events, waiting, delivered, lost, deliveries } = webhook;
  const test = useSubmission(async () => {
    await ask(`/webhooks/${number}/test`, { method: "POST", body: {} });
    onSent();
  });
  return (
    <section class="card">
      <header>
        <h2>{origin}</h2>
        {mayChange() && (
          <button type="button" class="button small" disabled={test.busy.value} onClick={() => test.run(undefined)}>
            Send a test
          </button>
        )}
      </header>
      <ErrorNote error={test.error.value} />
      <p class="small muted">
        {events.join(", ")}. Delivered {delivered}, waiting {waiting}, lost {lost}.
      </p>
      {deliveries.length === 0 ? (
        <p class="muted">Nothing was sent since the start.</p>
      ) : (
        <DataTable
          label={`Deliveries to ${origin}`}
          rows={deliveries}
          keyOf={({ sent_at, type }) => `${sent_at} ${type}`}
          columns={[
            { title: "When", cell: ({ sent_at }) => <Moment at={sent_at} /> },
            { title: "Event", cell: ({ type }) => <code>{type}</code> },
            {
              title: "Answer",
              cell: ({ ok, status }) => <Badge tone={ok ? "good" : "bad"}>{status === null ? "none" : String(status)}</Badge>,
            },
          ]}
        />
      )}
    </section>
  );
}
