import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { consolePages, type ConsolePage } from "../../../admin/console/pages.ts";
import type { ConfigurationAnswer } from "../../core/answers.ts";
import { ask, hintSession, roleNow, signedIn } from "../../core/api.ts";
import { bytes } from "../../core/format.ts";
import { place } from "../../core/location.ts";
import { isPageFor } from "../../core/pages-of-role.ts";
import { useLoaded } from "../../core/query.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { TextField } from "../../parts/field.tsx";
import { Badge, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { DataTable } from "../../parts/table.tsx";

const tabs: readonly (readonly [page: ConsolePage, text: string])[] = [
  ["settings", "Configuration"],
  ["history", "History"],
  ["audit", "Audit log"],
  ["prices", "Prices"],
  ["accounts", "Accounts"],
  ["webhooks", "Webhooks"],
  ["backup", "Backup"],
];

/** The frame of the pages about settings. */
export function SettingsFrame({
  title,
  actions,
  children,
}: {
  readonly title: string;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}) {
  return (
    <Page title={title} actions={actions}>
      <nav class="tabs" aria-label="Settings">
        {tabs
          .filter(([page]) => isPageFor(roleNow(), page))
          .map(([page, text]) => (
            <a key={page} href={consolePages[page]} aria-current={place.value.page === page ? "page" : undefined}>
              {text}
            </a>
          ))}
      </nav>
      {children}
    </Page>
  );
}

interface HealthPart {
  readonly kind: string;
  readonly ok: boolean;
  readonly detail: string | null;
}

interface SettingsHealth {
  readonly status: string;
  readonly version: string;
  readonly store: HealthPart;
  readonly state: HealthPart;
  readonly journal: { readonly waiting_bytes: number };
  readonly insecure_transport: boolean;
  readonly certificate: { readonly expires: string; readonly days_left: number } | null;
}

type SettingRow = ConfigurationAnswer["settings"][number];

export function SettingsPage() {
  return (
    <SettingsFrame title="Settings">
      <Parts />
      <Configuration />
      <OwnPassword />
    </SettingsFrame>
  );
}

function Parts() {
  const loaded = useLoaded<SettingsHealth>("/health", {}, { everyMs: 10_000 });
  const health = loaded.data.value;
  return (
    <section class="card">
      <header>
        <h2>Gateway</h2>
      </header>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {health !== null && (
        <dl class="facts">
          <Part name="Version">{health.version}</Part>
          <Part name="Store">
            {health.store.kind} <Light part={health.store} />
          </Part>
          <Part name="Shared limits">
            {health.state.kind} <Light part={health.state} />
          </Part>
          <Part name="Journal">{bytes(health.journal.waiting_bytes)} waiting</Part>
          <Part name="Transport">
            {health.insecure_transport ? "plain HTTP that other machines can reach" : "only this machine, or TLS"}
          </Part>
          {health.certificate !== null && <Part name="Certificate">{health.certificate.days_left} days left</Part>}
        </dl>
      )}
    </section>
  );
}

function Part({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Light({ part }: { readonly part: HealthPart }) {
  return <Badge tone={part.ok ? "good" : "bad"}>{part.ok ? "works" : (part.detail ?? "does not work")}</Badge>;
}

function Configuration() {
  const loaded = useLoaded<ConfigurationAnswer>("/configuration");
  const search = useSignal("");
  const all = useSignal(false);
  const found = loaded.data.value;
  const rows = (found?.settings ?? []).filter(
    ({ path, origin, about }) =>
      (all.value || origin !== "default") && `${path} ${about}`.toLowerCase().includes(search.value.toLowerCase()),
  );
  return (
    <section class="card">
      <header>
        <h2>Configuration in force</h2>
        <span class="small muted">{found?.file ?? "no file: everything comes from the environment"}</span>
      </header>
      <div class="stack">
        <div class="filters">
          <TextField label="Search" name="setting" type="search" value={search.value} onText={(text) => (search.value = text)} />
          <label class="row">
            <input type="checkbox" checked={all.value} onChange={(event) => (all.value = event.currentTarget.checked)} /> Defaults as well
          </label>
        </div>
        <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
        {found !== null && (
          <DataTable
            label="Settings"
            rows={rows}
            keyOf={({ path }) => path}
            columns={[
              { title: "Setting", cell: ({ path }) => <code>{path}</code>, whole: ({ about }) => about },
              { title: "Value", cell: (row) => <code>{valueText(row)}</code>, whole: valueText },
              { title: "From", cell: originText },
            ]}
          />
        )}
      </div>
    </section>
  );
}

function valueText({ value, otherwise }: SettingRow): string {
  if (value === null || value === undefined) return otherwise ?? "not set";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function originText({ origin, line, variables }: SettingRow): string {
  if (variables.length > 0) return variables.join(", ");
  if (origin === "file") return line === null ? "the file" : `line ${line}`;
  return origin === "environment" ? "the environment" : "default";
}

function OwnPassword() {
  const { error, busy, run } = useSubmission(async ({ current, password }: FormFields) => {
    await ask("/password", { method: "POST", body: { current, password } });
    hintSession(false);
    signedIn.value = null;
  });
  return (
    <section class="card">
      <header>
        <h2>Your password</h2>
        <span class="small muted">A new one ends all of your sessions.</span>
      </header>
      <form class="filters" onSubmit={(event) => run(fieldsOf(event))}>
        <TextField label="Current" name="current" type="password" autoComplete="current-password" required error={error.value} />
        <TextField label="New" name="password" type="password" autoComplete="new-password" minLength={12} required error={error.value} />
        <button class="button" disabled={busy.value}>
          Change it
        </button>
      </form>
      <ErrorNote error={error.value} />
    </section>
  );
}
