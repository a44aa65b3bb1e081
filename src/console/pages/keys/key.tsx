import { useSignal } from "@preact/signals";
import type { KeyAnswer } from "../../core/answers.ts";
import { ask, mayManageKeys } from "../../core/api.ts";
import { count } from "../../core/format.ts";
import { pathTo, place } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { useSubmission } from "../../core/submit.ts";
import { stateTone } from "../../core/tones.ts";
import { Budgets } from "../../parts/budgets.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Fact } from "../../parts/fact.tsx";
import { Ago, Moment } from "../../parts/moment.tsx";
import { Badge, ErrorNote } from "../../parts/notice.tsx";
import { LinksOf, Page } from "../../parts/page.tsx";
import { EditKey, NewToken, type CreatedKey } from "./create-key.tsx";
import { limitsText } from "../../core/limits.ts";

/** One key: what it may do, what it has spent, and its rotation and end. */
export function KeyPage() {
  const id = place.value.params["id"] ?? "";
  const path = `/keys/${encodeURIComponent(id)}`;
  const loaded = useLoaded<KeyAnswer>(path);
  const key = loaded.data.value;
  return (
    <Page title={key?.name ?? "Key"} about={<span class="mono">{id}</span>} actions={<LinksOf kind="key" id={id} />}>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {key !== null && (
        <>
          <Budgets path={path} />
          <KeyFacts keyAnswer={key} />
          {mayManageKeys() && key.source === "store" && key.state !== "revoked" && (
            <Actions keyAnswer={key} path={path} onChanged={() => loaded.reload()} />
          )}
        </>
      )}
    </Page>
  );
}

function KeyFacts({ keyAnswer: key }: { readonly keyAnswer: KeyAnswer }) {
  return (
    <section class="card">
      <header>
        <h2>
          What it may do <Badge tone={stateTone(key.state)}>{key.state}</Badge>
        </h2>
      </header>
      <dl class="facts">
        <Fact name="Models">{key.models === null ? "all" : key.models.join(", ")}</Fact>
        <Fact name="Operations">{key.operations === null ? "all" : key.operations.join(", ")}</Fact>
        <Fact name="Channels">{key.channels === null ? "all" : key.channels.join(", ")}</Fact>
        {key.group !== null && (
          <Fact name="Group">
            <a href={pathTo("group", { id: key.group })}>{key.group}</a>
          </Fact>
        )}
        <Fact name="Limits">{limitsText(key.limits)}</Fact>
        <Fact name="Owner">{key.owner ?? "–"}</Fact>
        <Fact name="Note">{key.note ?? "–"}</Fact>
        <Fact name="Last used">
          <Ago at={key.last_used_at} />
        </Fact>
        <Fact name="Expires">{key.expires_at === null ? "never" : <Moment at={key.expires_at} />}</Fact>
        <Fact name="Created">
          <Moment at={key.created_at} />
        </Fact>
        <Fact name="Kept in">{key.source === "file" ? "the configuration file, where it is changed" : "the store"}</Fact>
      </dl>
      {key.tokens.length > 0 && (
        <p class="small muted">
          {count(key.tokens.length)} {key.tokens.length === 1 ? "token" : "tokens"}: {key.tokens.map(({ last4 }) => `…${last4}`).join(", ")}
        </p>
      )}
    </section>
  );
}

function Actions({ keyAnswer, path, onChanged }: { readonly keyAnswer: KeyAnswer; readonly path: string; readonly onChanged: () => void }) {
  const asks = useSignal<"" | "edit" | "rotate" | "revoke">("");
  const created = useSignal<CreatedKey | null>(null);
  const close = (): void => {
    asks.value = "";
  };
  const rotate = useSubmission(async () => {
    created.value = await ask<CreatedKey>(`${path}/rotate`, { method: "POST" });
    close();
    onChanged();
  });
  const revoke = useSubmission(async () => {
    await ask(`${path}/revoke`, { method: "POST" });
    close();
    onChanged();
  });
  return (
    <section class="card">
      <div class="row">
        <button type="button" class="button" onClick={() => (asks.value = "edit")}>
          Change
        </button>
        <button type="button" class="button" onClick={() => (asks.value = "rotate")}>
          Rotate
        </button>
        <button type="button" class="button danger" onClick={() => (asks.value = "revoke")}>
          Revoke
        </button>
        <span class="small muted">Rotate to give it a new secret; revoke to end it.</span>
      </div>
      {asks.value === "edit" && <EditKey of={keyAnswer} path={path} onClose={close} onChanged={onChanged} />}
      {asks.value === "rotate" && (
        <Confirm title={`Rotate ${keyAnswer.name}?`} action="Rotate it" onClose={close} onConfirm={() => rotate.run(undefined)}>
          <p>You get a new secret. The old one keeps working for 24 hours, so that clients can change over.</p>
          <ErrorNote error={rotate.error.value} />
        </Confirm>
      )}
      {asks.value === "revoke" && (
        <Confirm title={`Revoke ${keyAnswer.name}?`} action="Revoke it" onClose={close} onConfirm={() => revoke.run(undefined)}>
          <p>Its clients are refused within a second, and its running calls end. This cannot be undone.</p>
          <ErrorNote error={revoke.error.value} />
        </Confirm>
      )}
      {created.value !== null && <NewToken created={created.value} onClose={() => (created.value = null)} />}
    </section>
  );
}
