import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parser as promql } from "@prometheus-io/lezer-promql";
import { parse } from "yaml";
import { shownAs } from "../../src/http/errors.ts";
import { CallMetrics } from "../../src/telemetry/metrics/call-metrics.ts";
import { exposition } from "../../src/telemetry/metrics/exposition.ts";
import { MetricRegistry } from "../../src/telemetry/metrics/registry.ts";
import { budgetFamilies, stateFamilies } from "../../src/telemetry/metrics/state-metrics.ts";
import { OtlpExporter } from "../../src/telemetry/otlp/otlp-exporter.ts";
import type { MetricFamily } from "../../src/telemetry/metrics/family.ts";
import { WebhookSender } from "../../src/telemetry/webhooks/webhook-sender.ts";
import { checked, toolNamed } from "../support/deploy-tools.ts";
import { gatewayState, otlpPorts, otlpSettings } from "../support/telemetry.ts";

const deploy = join(import.meta.dir, "../../deploy");
const rulesFile = join(deploy, "prometheus/sluice.rules.yaml");

/** Every metric that a gateway can show, and its labels. */
const families: readonly MetricFamily[] = [
  ...new CallMetrics(new MetricRegistry(), true, (failure) => shownAs(failure).code).registry.collect(),
  ...stateFamilies(gatewayState),
  ...budgetFamilies([]),
  ...new OtlpExporter(otlpSettings(), otlpPorts()).families(),
  ...new WebhookSender([], { ...otlpPorts(), onLoss: () => {} }).families(),
];
const labelsOf = new Map<string, readonly string[]>([
  ...families.flatMap(({ name, type, labels }): [string, readonly string[]][] =>
    type === "histogram"
      ? [
          [`${name}_bucket`, [...labels, "le"]],
          [`${name}_sum`, labels],
          [`${name}_count`, labels],
        ]
      : [[name, labels]],
  ),
  // Those of several workers, which `src/app/telemetry/metrics.ts` adds.
  ["sluice_workers", []],
  ["sluice_workers_reporting", []],
]);

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

const { groups } = parse(readFileSync(rulesFile, "utf8")) as { groups: readonly { name: string; rules: readonly Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const recorded = new Set(rules.flatMap(({ record }) => record ?? []));

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const dashboard = JSON.parse(readFileSync(join(deploy, "grafana/sluice.json"), "utf8")) as {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly query: string | { readonly query: string } }[] };
};
const panels = dashboard.panels.filter(({ type }) => type !== "row");
const queries = dashboard.templating.list
  .map(({ query }) => (typeof query === "string" ? query : query.query))
  .filter((query) => query !== "prometheus");

/** What is wrong with the names in an expression: metrics that no gateway has, and labels that they have not. */
function unknownIn(expression: string): readonly string[] {
  const wrong: string[] = [];
  for (const [, name = "", selector = ""] of expression.matchAll(/\b((?:sluice|process)_\w+)(?:\{([^}]*)\})?/g)) {
    const labels = labelsOf.get(name);
    if (labels === undefined) wrong.push(name);
    for (const [, label = ""] of selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g))
      if (labels?.includes(label) === false && !["job", "instance", "worker"].includes(label)) wrong.push(`${name}{${label}}`);
  }
  for (const [name] of expression.matchAll(/\bsluice:[\w:]+/g)) if (!recorded.has(name)) wrong.push(name);
  return wrong;
}

test("every metric and label in the alert rules is one that the gateway shows", () => {
  expect(rules.length).toBeGreaterThan(15);
  expect(rules.flatMap(({ expr }) => unknownIn(expr))).toEqual([]);
});

test("the alerts that are counted on fire at these conditions, whether or not promtool is there to try them", () => {
  const counted: Readonly<Record<string, readonly [expr: string, lasting: string | null, severity: string]>> = {
    SluiceErrorBudgetBurnsFast: [
      "sluice:request_errors:ratio_rate1h > 14.4 * 0.005 and sluice:request_errors:ratio_rate5m > 14.4 * 0.005",
      null,
      "page",
    ],
    SluiceErrorBudgetBurns: [
      "sluice:request_errors:ratio_rate6h > 6 * 0.005 and sluice:request_errors:ratio_rate30m > 6 * 0.005",
      null,
      "page",
    ],
    SluiceErrorBudgetBurnsSlowly: [
      "sluice:request_errors:ratio_rate1d > 3 * 0.005 and sluice:request_errors:ratio_rate2h > 3 * 0.005",
      null,
      "ticket",
    ],
    SluiceCircuitBreakerOpen: ['max by (channel) (max_over_time(sluice_circuit_breakers{state="open"}[5m])) > 0', "10m", "ticket"],
    SluiceJournalLags: [
      "max by (instance) (sluice_journal_waiting_receipts) > 10000 or max by (instance) (sluice_journal_waiting_bytes) > 64 * 1024 * 1024",
      "10m",
      "ticket",
    ],
    SluiceReceiptsLate: ["max by (instance) (sluice_journal_oldest_receipt_seconds) > 300", "1m", "ticket"],
    SluiceJournalFull: ["max by (instance) (sluice_journal_full) == 1", null, "page"],
    SluiceStoreDown: ["min by (instance) (sluice_store_up) == 0", "2m", "page"],
    SluiceSharedLimitsDown: ["min by (instance) (sluice_shared_limits_up) == 0", "2m", "ticket"],
    SluiceBudgetNearlySpent: ["max by (key, models) (1 - sluice_budget_left_usd / sluice_budget_limit_usd) >= 0.8", null, "ticket"],
    SluiceGroupBudgetNearlySpent: [
      "max by (group, models) (1 - sluice_group_budget_left_usd / sluice_group_budget_limit_usd) >= 0.8",
      null,
      "ticket",
    ],
  };
  const found = rules.flatMap(({ alert, expr, for: lasting, labels }) =>
    alert !== undefined && alert in counted ? [[alert, [expr, lasting ?? null, labels?.["severity"]]]] : [],
  );
  expect(Object.fromEntries(found)).toEqual(counted);
  expect(found.length).toBe(Object.keys(counted).length);
  for (const window of ["5m", "30m", "1h", "2h", "6h", "1d"])
    expect(rules.filter(({ record }) => record === `sluice:request_errors:ratio_rate${window}`)).toEqual([
      {
        record: `sluice:request_errors:ratio_rate${window}`,
        expr:
          `sum(rate(sluice_requests_total{blame=~"channel|gateway"}[${window}])) / ` +
          `sum(rate(sluice_requests_total{blame!="client"}[${window}]))`,
      },
    ]);
});

test("every alert says how urgent it is, what is wrong, and what that means", () => {
  for (const { alert, labels, annotations } of rules.filter((rule) => rule.alert !== undefined)) {
    expect([alert, labels?.["severity"]]).toEqual([alert, expect.stringMatching(/^(page|ticket)$/)]);
    expect(Object.keys(annotations ?? {})).toEqual(["summary", "description"]);
  }
});

test("every label that an alert names is one that its expression leaves", () => {
  const named = rules.flatMap(({ alert, expr, annotations }) =>
    Object.values(annotations ?? {}).flatMap((words) =>
      [...words.matchAll(/\$labels\.(\w+)/g)].map(([, label = ""]) => ({ alert, expr, label })),
    ),
  );
  expect(named.length).toBeGreaterThan(5);
  for (const { alert, expr, label } of named)
    expect([alert, label, expr]).toEqual([alert, label, expect.stringMatching(new RegExp(`by \\([^)]*\\b${label}\\b`))]);
});

test("no alert blames a channel for a time that attempts on others are part of", () => {
  const late = rules.filter(({ alert, expr }) => alert !== undefined && expr.includes("sluice_time_to_first_content_seconds"));
  expect(late.map(({ expr }) => expr.includes("channel"))).toEqual([false]);
});

test("every alert has a case in which promtool sees it fire, and what is wrong with one gateway names it", () => {
  const { tests } = parse(readFileSync(join(deploy, "prometheus/sluice.rules.test.yaml"), "utf8")) as {
    readonly tests: readonly {
      readonly alert_rule_test: readonly { readonly alertname: string; readonly exp_alerts: readonly unknown[] }[];
    }[];
  };
  const fired = tests.flatMap((one) =>
    one.alert_rule_test.flatMap(({ alertname, exp_alerts }) => (exp_alerts.length > 0 ? alertname : [])),
  );
  expect(rules.flatMap(({ alert }) => alert ?? []).filter((alert) => !fired.includes(alert))).toEqual([]);
  const ofOne = /sluice_(?:store|shared_limits)_up|sluice_journal|sluice_event_loop|sluice_workers|sluice_tls/;
  for (const { alert, expr } of rules.filter((rule) => rule.alert !== undefined && ofOne.test(rule.expr)))
    expect([alert, expr]).toEqual([alert, expect.stringContaining("by (instance)")]);
});

const promtool = toolNamed("promtool");
test.skipIf(promtool === null)("promtool accepts the alert rules, and they fire as their tests say", () => {
  for (const command of [
    ["check", "rules", rulesFile],
    ["test", "rules", join(deploy, "prometheus/sluice.rules.test.yaml")],
  ])
    expect(checked([promtool ?? "", ...command])).toEqual({ code: 0, said: expect.stringContaining("SUCCESS") });
});

test.skipIf(promtool === null)(
  "promtool reads what Prometheus does: the configuration of the compose file, and the metrics, whose names follow its rules",
  () => {
    const config = checked([promtool ?? "", "check", "config", "--syntax-only", join(deploy, "prometheus/prometheus.yaml")]);
    expect(config).toEqual({ code: 0, said: expect.stringContaining("SUCCESS") });
    const filled = families.map((family) =>
      family.series.length > 0 ? family : { ...family, series: [{ labels: family.labels.map(() => 'a "quoted"\\ label'), value: 1 }] },
    );
    expect(checked([promtool ?? "", "check", "metrics"], exposition(filled))).toEqual({ code: 0, said: "" });
  },
);

/** Where Prometheus's grammar finds an expression to be broken. Grafana replaces its variables before Prometheus sees them. */
function brokenAt(expression: string): readonly string[] {
  const text = expression.replaceAll(/\$__(?:rate_)?(?:interval|range)\b/g, "5m").replaceAll(/\$\w+/g, "some");
  const broken: string[] = [];
  promql.parse(text).iterate({
    enter: ({ type, from, to }) => {
      if (type.isError) broken.push(`${text.slice(0, from)}<here>${text.slice(to)}`);
    },
  });
  return broken;
}

test("every expression of the dashboard and of the rules is one that the grammar of Prometheus accepts", () => {
  const shown = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const all = [...shown, ...rules.map(({ expr }) => expr)];
  expect(all.length).toBeGreaterThan(50);
  expect(all.flatMap(brokenAt)).toEqual([]);
  for (const wrong of ["sum by (channel (rate(x[5m]))", "rate(x[5m]", "x{a=1}", "histogram_quantile(0.9 x)"])
    expect(brokenAt(wrong)).not.toEqual([]);
});

test("every metric and label in the dashboard is one that the gateway shows, and its panels have ids of their own", () => {
  expect(panels.length).toBeGreaterThan(20);
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  expect([...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)), ...queries].flatMap(unknownIn)).toEqual([]);
  for (const { title, targets = [] } of panels) expect([title, targets.length > 0]).toEqual([title, true]);
});

test("a limit of each process is added up in the dashboard like what it limits", () => {
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  for (const name of ["sluice_channel_in_flight", "sluice_channel_concurrency_limit"])
    expect(expressions.filter((expr) => expr.includes(name))).toEqual([expect.stringMatching(/^sum by \(channel\) \(/)]);
});

test("a share of requests is 0 in the dashboard while none has failed, and while there are none at all", () => {
  const shares = panels.flatMap(({ title, targets = [] }) =>
    targets.filter(({ expr }) => /\brate\(.*\/.*\brate\(/.test(expr)).map(({ expr }) => [title, expr] as const),
  );
  expect(shares.map(([title]) => title)).toEqual(["Failed without the client's fault"]);
  // Without failures the dividend has no series; without requests the divisor is 0.
  for (const [, expr] of shares) expect(expr).toMatch(/ \/ \(sum\(.*\) > 0\) or vector\(0\)$/);
});

test("the dashboard shows what the gateway measures, as far as it is not the same in other words", () => {
  const shown = JSON.stringify(dashboard);
  const left = [
    "sluice_request_bytes_total",
    "sluice_response_bytes_total",
    "sluice_unpriced_attempts_total",
    "sluice_hedge_waste_usd_total",
  ];
  const elsewhere = [
    "sluice_heap_bytes",
    "sluice_external_bytes",
    "sluice_build_info",
    "process_start_time_seconds",
    "sluice_waiting_for_capacity",
    "sluice_journal_full",
  ];
  const missing = families.map(({ name }) => name).filter((name) => !shown.includes(name));
  const known = [...left, ...elsewhere, "sluice_journal_waiting_bytes", "sluice_otlp_exported_total", "sluice_webhook_delivered_total"];
  expect(missing.filter((name) => !known.includes(name) && !name.startsWith("sluice_key_"))).toEqual([]);
});
