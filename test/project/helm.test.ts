import { Validator, type Schema } from "@cfworker/json-schema";
import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";
import { z } from "zod";
import { parseArguments } from "../../src/cli/arguments.ts";
import { loadConfig } from "../../src/config/load.ts";
import { localModels } from "../../src/engines/catalog.ts";
import { servedRoutes } from "../../src/http/routes.ts";
import { root } from "../../scripts/source-tree.ts";
import { checked, toolNamed } from "../support/deploy-tools.ts";
import { lastOf, stageNamed } from "../support/dockerfile.ts";
import { blocksOf } from "../support/guides.ts";
import {
  chart,
  chartFolder,
  defaultValues,
  render,
  templates,
  valuesSchema,
  withDefaults,
  type KubernetesObject,
  type Values,
} from "../support/helm/chart.ts";
import manifest from "../../package.json" with { type: "json" };

/** Everything on, with several replicas. */
const everything: Values = {
  replicas: 3,
  workers: 2,
  config: { store: "${STORE_URL}", state: "${STATE_URL}", channels: [{ name: "main", provider: "openai", api_key: "${OPENAI_API_KEY}" }] },
  secret: {
    data: {
      SLUICE_MASTER_KEY: "0123456789abcdef".repeat(4),
      METRICS_TOKEN: "metrics-0123456789abcdef",
      STORE_URL: "postgres://sluice:word@postgres:5432/sluice",
      STATE_URL: "redis://redis:6379",
      OPENAI_API_KEY: "sk-0123456789abcdef",
    },
  },
  env: [{ name: "TZ", value: "Etc/UTC" }],
  lingerSeconds: 10,
  drainSeconds: 300,
  ingress: { enabled: true, className: "nginx", hosts: ["ai.example.com"], tls: [{ secretName: "tls", hosts: ["ai.example.com"] }] },
  autoscaling: { enabled: true },
  serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
  networkPolicy: { enabled: true, from: [{ podSelector: {} }] },
  imagePullSecrets: [{ name: "registry" }],
  priorityClassName: "high",
  podLabels: { team: "ai" },
  podAnnotations: { note: "x" },
  nodeSelector: { "kubernetes.io/os": "linux" },
  tolerations: [{ key: "dedicated", operator: "Exists" }],
  affinity: { nodeAffinity: {} },
};
const secretVariable = (name: string, key: string): Values => ({ name, valueFrom: { secretKeyRef: { name: "mine", key } } });
const cases: Readonly<Record<string, Values>> = {
  default: {},
  everything,
  "a secret of your own": { ...everything, secret: { existingSecret: "mine", data: null }, autoscaling: { enabled: false } },
  "variables from keys of secrets": {
    replicas: 2,
    config: { store: "${STORE_URL}" },
    env: [secretVariable("SLUICE_MASTER_KEY", "master"), secretVariable("STORE_URL", "store")],
  },
  "with TLS": { ...everything, tls: { existingSecret: "certificate" } },
  "files of your own": {
    env: [{ name: "SLUICE_MASTER_KEY_FILE", value: "/keys/master" }],
    extraVolumes: [{ name: "keys", secret: { secretName: "mine" } }],
    extraVolumeMounts: [{ name: "keys", mountPath: "/keys", readOnly: true }],
  },
  "with IPv6": { listenHost: "[::]" },
  "nothing kept": { persistence: { enabled: false }, serviceAccount: { create: false }, topologySpread: null },
};
const refused: readonly (readonly [why: string, Values])[] = [
  ["More than one replica needs config.store", { replicas: 2 }],
  ["A SQLite store belongs to one replica alone", { replicas: 2, config: { store: "sqlite" } }],
  ["More than one replica needs config.store", { autoscaling: { enabled: true } }],
  ["needs the same SLUICE_MASTER_KEY", { replicas: 2, config: { store: "${STORE_URL}" } }],
  [
    "the same SLUICE_MASTER_KEY for all: add it to secret.data",
    { replicas: 2, config: { store: "${STORE_URL}" }, secret: { data: { STORE_URL: "postgres://h/d" } } },
  ],
  [
    "needs the same SLUICE_MASTER_KEY",
    { replicas: 2, config: { store: "${STORE_URL}" }, env: [secretVariable("STORE_URL", "SLUICE_MASTER_KEY")] },
  ],
  ["Remove config.data_dir", { config: { data_dir: "./data" } }],
  ["Remove config.listen", { config: { listen: "0.0.0.0:8080" } }],
  ["Use tls.existingSecret in place of config.tls", { config: { tls: { cert_file: "/a", key_file: "/b" } } }],
  ["Use lingerSeconds and drainSeconds", { config: { server: { drain: "1h" } } }],
  ["Use lingerSeconds and drainSeconds", { config: { server: { linger: "1m" } } }],
  ["The Ingress needs ingress.hosts", { ingress: { enabled: true } }],
  ["The ServiceMonitor needs METRICS_TOKEN", { serviceMonitor: { enabled: true } }],
  [
    "METRICS_TOKEN: add it to secret.data",
    { serviceMonitor: { enabled: true }, secret: { data: { OPENAI_API_KEY: "sk-0123456789abcdef" } } },
  ],
];

describe("the chart", () => {
  test("is of the gateway's version", () => {
    expect([chart["appVersion"], chart["name"]]).toEqual([manifest.version, manifest.name]);
  });

  const schema = z.fromJSONSchema(valuesSchema);
  test("takes its own values, and those of the tests", () => {
    for (const own of Object.values(cases)) expect(schema.safeParse(withDefaults(own)).error).toBeUndefined();
  });

  test.each<[string, Values]>([
    ["a value that it does not know", { replicaCount: 3 }],
    ["one inside of a group", { image: { name: "x" } }],
    ["a text for a number", { replicas: "3" }],
    ["no processes", { workers: 0 }],
    ["a list for a group", { config: [] }],
    ["a disk that several machines write", { persistence: { accessModes: ["ReadWriteMany"] } }],
    ["a name that no variable can have", { secret: { data: { "api-key": "x" } } }],
    ["a number as a variable", { secret: { data: { PORT: 1 } } }],
    ["a port beside the host", { listenHost: "0.0.0.0:80" }],
    ["a mount without a path", { extraVolumeMounts: [{ name: "keys" }] }],
  ])("refuses %s", (_, own) => {
    expect(schema.safeParse(withDefaults(own)).success).toBe(false);
  });

  test("takes the values that docs/deploy.md shows, and makes several replicas of them", () => {
    const [shown = ""] = blocksOf("docs/deploy.md").flatMap(({ text }) => (text.startsWith("# values.yaml") ? [text] : []));
    const own = parse(shown) as Values;
    expect(schema.safeParse(withDefaults(own)).error).toBeUndefined();
    const result = render(own);
    expect("error" in result ? result.error : result.objects.map(({ kind }) => kind)).toContain("HorizontalPodAutoscaler");
  });

  test("has every value that a template asks for, and asks for every value that it has", () => {
    const asked = new Set(
      Object.values(templates).flatMap((text) => [...text.matchAll(/\.Values\.([\w.]+)/g)].map(([, path = ""]) => path)),
    );
    // The gateway's own settings are not the chart's.
    for (const own of ["config.store", "config.server"]) asked.delete(own);
    const has = (path: string): boolean => {
      let value: unknown = defaultValues;
      for (const name of path.split(".")) {
        if (typeof value !== "object" || value === null || !(name in value)) return false;
        value = (value as Values)[name];
      }
      return true;
    };
    expect([...asked].filter((path) => !has(path))).toEqual([]);
    const isUsed = (path: string): boolean =>
      [...asked].some((one) => one === path || path.startsWith(`${one}.`) || one.startsWith(`${path}.`));
    const leaves = Object.entries(defaultValues).flatMap(([name, value]) =>
      typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
        ? Object.keys(value).map((inner) => `${name}.${inner}`)
        : [name],
    );
    expect(leaves.filter((path) => !isUsed(path))).toEqual([]);
    const described = Object.keys(valuesSchema["properties"] as Values).filter((name) => name !== "global");
    expect(described.toSorted()).toEqual(Object.keys(defaultValues).toSorted());
  });
});

interface Container {
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly envFrom?: readonly { readonly secretRef: { readonly name: string } }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly securityContext: Values;
  readonly [probe: string]: unknown;
}

interface StatefulSet extends KubernetesObject {
  readonly spec: {
    readonly replicas?: number;
    readonly serviceName: string;
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly volumeClaimTemplates?: readonly KubernetesObject[];
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>>; readonly annotations: Readonly<Record<string, string>> };
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly [Container];
        readonly volumes: readonly { readonly name: string; readonly configMap?: { readonly name: string } }[];
        readonly securityContext: Values;
        readonly serviceAccountName: string;
        readonly topologySpreadConstraints?: readonly { readonly labelSelector: { readonly matchLabels: Values } }[];
      };
    };
  };
}

describe("the rendered chart", () => {
  const names = Object.keys(cases);
  const rendered = new Map(Object.entries(cases).map(([name, own]) => [name, render(own)]));

  function objectsOf(name: string): readonly KubernetesObject[] {
    const result = rendered.get(name);
    if (result === undefined || "error" in result) throw new Error(result?.error ?? name);
    return result.objects;
  }
  const kind = (name: string, wanted: string): KubernetesObject | undefined => objectsOf(name).find((object) => object.kind === wanted);
  const replicasOf = (name: string): StatefulSet => kind(name, "StatefulSet") as StatefulSet;

  test("has what was asked for", () => {
    const kinds = (name: string): readonly string[] =>
      objectsOf(name)
        .map((object) => object.kind)
        .toSorted();
    expect(kinds("default")).toEqual(["ConfigMap", "Service", "Service", "ServiceAccount", "StatefulSet"]);
    expect(kinds("everything")).toEqual(
      [
        ...["ConfigMap", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "Secret"],
        ...["Service", "Service", "ServiceAccount", "ServiceMonitor", "StatefulSet"],
      ].toSorted(),
    );
    expect(kinds("a secret of your own")).not.toContain("Secret");
    expect(kinds("nothing kept")).toEqual(["ConfigMap", "Service", "Service", "StatefulSet"]);
  });

  test.each(refused)("is refused in words where it could not work: %s", (why, own) => {
    const result = render(own);
    expect("error" in result ? result.error : "it was rendered").toContain(why);
  });

  test("tells to keep a copy of the master key wherever the gateway makes it", () => {
    const isTold = (secret: Values, env: readonly Values[] = []): boolean => {
      const result = render({ secret, env });
      return !("error" in result) && result.notes.includes("Keep a copy of the master key");
    };
    expect([{}, { data: { OPENAI_API_KEY: "sk-0123456789abcdef" } }].map((secret) => isTold(secret))).toEqual([true, true]);
    expect([{ existingSecret: "mine" }, { data: { SLUICE_MASTER_KEY: "0".repeat(64) } }].map((secret) => isTold(secret))).toEqual([
      false,
      false,
    ]);
    expect(isTold({}, [secretVariable("SLUICE_MASTER_KEY", "master")])).toBe(false);
  });

  test("advises commands of the gateway only: the slim image has no others", () => {
    const result = render({});
    const advised = "error" in result ? [] : [...result.notes.matchAll(/ exec \S+ -- (.*)/g)].map(([, line = ""]) => line.split(" "));
    expect(advised.length).toBe(2);
    for (const [program, ...words] of advised) expect([program, parseArguments(words, "").command]).toEqual(["sluice", "store"]);
  });

  test("leaves it to you how the replicas get the same master key", () => {
    const env = [{ name: "SLUICE_MASTER_KEY_FILE", value: "/keys/master" }];
    expect(render({ ...everything, env, secret: { data: { METRICS_TOKEN: "metrics-0123456789abcdef" } } })).not.toHaveProperty("error");
  });

  test.each(names)("has selectors, names and ports that fit together: %s", (name) => {
    const { spec } = replicasOf(name);
    const { labels } = spec.template.metadata;
    const own = objectsOf(name);
    const selectors = [
      spec.selector.matchLabels,
      ...(spec.template.spec.topologySpreadConstraints ?? []).map(({ labelSelector }) => labelSelector.matchLabels),
      ...own.filter((one) => one.kind === "Service").map((one) => (one["spec"] as { readonly selector: Values }).selector),
      ...own
        .filter((one) => ["PodDisruptionBudget", "NetworkPolicy"].includes(one.kind))
        .map((one) => {
          const { selector, podSelector } = one["spec"] as {
            readonly selector?: { matchLabels: Values };
            readonly podSelector?: { matchLabels: Values };
          };
          return (selector ?? podSelector)!.matchLabels;
        }),
    ];
    for (const selector of selectors) expect(labels).toMatchObject(selector);
    expect(own.filter((one) => one.kind === "Service").map((one) => one.metadata.name)).toContain(spec.serviceName);
    const monitor = kind(name, "ServiceMonitor");
    if (monitor !== undefined) {
      const { selector } = monitor["spec"] as { readonly selector: { readonly matchLabels: Record<string, string> } };
      const found = own.filter(
        (one) =>
          one.kind === "Service" && Object.entries(selector.matchLabels).every(([key, value]) => one.metadata.labels?.[key] === value),
      );
      expect(found.map((one) => one.metadata.name)).toEqual(["prod-sluice"]);
    }
    const [container] = spec.template.spec.containers;
    const volumes = [...spec.template.spec.volumes, ...(spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata)];
    expect(container.volumeMounts.map((mount) => mount.name).toSorted()).toEqual(volumes.map((volume) => volume.name).toSorted());
    const account = kind(name, "ServiceAccount");
    expect(spec.template.spec.serviceAccountName).toBe(account?.metadata.name ?? "default");
  });

  test.each(names)("starts the gateway with arguments, a configuration and probes that it knows: %s", async (name) => {
    const { template } = replicasOf(name).spec;
    const [container] = template.spec.containers;
    const port = container.ports.find((one) => one.name === "http")?.containerPort;
    expect(String(port)).toBe(lastOf(stageNamed("sluice"), "EXPOSE"));
    expect(parseArguments(container.args, "")).toMatchObject({
      command: "start",
      listen: `${name === "with IPv6" ? "[::]" : "0.0.0.0"}:${port}`,
    });
    for (const [probe, path] of [
      ["startupProbe", "/healthz"],
      ["livenessProbe", "/healthz"],
      ["readinessProbe", "/readyz"],
    ] as const) {
      expect(container[probe]).toMatchObject({ httpGet: { path, port: "http", scheme: name === "with TLS" ? "HTTPS" : "HTTP" } });
      expect(servedRoutes).toContain(`GET ${path}`);
    }
    const variables = Object.fromEntries(container.env.map((one) => [one.name, one.value]));
    const file = variables["SLUICE_CONFIG"] ?? "";
    const config = kind(name, "ConfigMap");
    expect(template.spec.volumes.find((one) => one.name === "config")?.configMap?.name).toBe(config!.metadata.name);
    expect(container.volumeMounts).toContainEqual(expect.objectContaining({ name: "config", mountPath: "/etc/sluice" }));
    const text = (config!["data"] as Record<string, string>)[file.slice("/etc/sluice/".length)]!;
    const env = (everything["secret"] as { readonly data: Record<string, string> }).data;
    // The certificate is not here.
    const { tls, ...settings } = parse(text) as Values & { readonly tls?: Readonly<Record<string, unknown>> };
    const mount = container.volumeMounts.find((one) => one.name === "tls")?.mountPath;
    expect([tls?.["cert_file"], tls?.["key_file"]]).toEqual(
      mount === undefined ? [undefined, undefined] : [`${mount}/tls.crt`, `${mount}/tls.key`],
    );
    const loaded = await loadConfig({ path: file, text: stringify(settings), env, nofile: 65_536, localModels: await localModels() });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    expect(container.volumeMounts).toContainEqual(expect.objectContaining({ name: "data", mountPath: loaded.settings.dataDir }));
    const { lingerMs, drainMs } = loaded.settings.service;
    expect(template.spec.terminationGracePeriodSeconds * 1000).toBe(lingerMs + drainMs + 30_000);
    // Beyond loopback it would need a token; kubectl forwards to loopback.
    expect(loaded.settings.admin?.host).toBe("127.0.0.1");
    const monitored = kind(name, "ServiceMonitor") !== undefined;
    expect([loaded.settings.metrics.dataPort, loaded.settings.metrics.token !== null]).toEqual([monitored, monitored]);
  });

  test("takes variables and the token of the metrics from one secret, its own or yours", () => {
    for (const [name, secret] of [
      ["everything", "prod-sluice"],
      ["a secret of your own", "mine"],
    ] as const) {
      expect(replicasOf(name).spec.template.spec.containers[0].envFrom).toEqual([{ secretRef: { name: secret } }]);
      expect(kind(name, "ServiceMonitor")?.["spec"]).toMatchObject({
        endpoints: [
          { port: "http", path: "/metrics", authorization: { type: "Bearer", credentials: { name: secret, key: "METRICS_TOKEN" } } },
        ],
      });
    }
    expect(kind("everything", "Secret")?.["stringData"]).toEqual((everything["secret"] as { readonly data: Record<string, string> }).data);
    expect(JSON.stringify(kind("everything", "ConfigMap"))).not.toContain("0123456789abcdef");
    expect(replicasOf("default").spec.template.spec.containers[0].envFrom).toBeUndefined();
  });

  const annotationsOf = (result: ReturnType<typeof render>): Values => {
    const ingress = "error" in result ? undefined : result.objects.find((object) => object.kind === "Ingress");
    return (ingress?.metadata as { readonly annotations?: Values } | undefined)?.annotations ?? {};
  };

  test("has an ingress that waits, takes and passes on as much as the nginx of deploy/", () => {
    const nginx = readFileSync(join(root, "deploy/nginx/sluice.conf"), "utf8");
    const annotations = annotationsOf(render(everything));
    for (const [annotation, directive] of [
      ["proxy-read-timeout", "proxy_read_timeout"],
      ["proxy-send-timeout", "proxy_send_timeout"],
      ["proxy-body-size", "client_max_body_size"],
      ["proxy-buffering", "proxy_buffering"],
      ["proxy-request-buffering", "proxy_request_buffering"],
    ] as const) {
      const [, value] = new RegExp(`^ +${directive} (\\w+?)s?;$`, "m").exec(nginx) ?? [];
      expect([annotation, annotations[`nginx.ingress.kubernetes.io/${annotation}`]]).toEqual([annotation, value]);
    }
  });

  test("starts replicas anew for a change that they would not take over, and for no other", () => {
    const annotations = (own: Values): Readonly<Record<string, string>> => {
      const result = render(own);
      if ("error" in result) throw new Error(result.error);
      const found = result.objects.find((object) => object.kind === "StatefulSet") as StatefulSet;
      return found.spec.template.metadata.annotations;
    };
    const before = annotations({});
    const [, list = ""] = /const readAtStart = \[(.*?)\] as const;/s.exec(readFileSync(join(root, "src/app/app.ts"), "utf8")) ?? [];
    const names = [...list.matchAll(/, "([\w.]+)"\]/g)].map(([, name = ""]) => name.replace(/\..*/, ""));
    expect(names.length).toBeGreaterThan(15);
    // These the chart sets itself.
    const given = names.filter((name) => !["listen", "tls", "data_dir"].includes(name));
    expect(
      given.filter((name) => annotations({ config: { [name]: "changed" } })["checksum/settings"] === before["checksum/settings"]),
    ).toEqual([]);
    const monitored = { serviceMonitor: { enabled: true }, secret: { existingSecret: "mine" } };
    expect(annotations(monitored)).not.toEqual(annotations({ secret: { existingSecret: "mine" } }));
    expect(annotations({ config: { channels: [{ name: "other", provider: "embedded" }], routing: { attempts: 2 } } })).toEqual(before);
  });

  test("has names and labels that Kubernetes takes, however long the names of the release and the chart are", () => {
    // The longest name of a release that Helm allows.
    const release = "a".repeat(53);
    const long = "b".repeat(80);
    for (const own of [{}, { nameOverride: long }, { fullnameOverride: long }, { ...everything, nameOverride: long }]) {
      const result = render(own, release);
      if ("error" in result) throw new Error(result.error);
      const { metadata, spec } = result.objects.find((object) => object.kind === "StatefulSet") as StatefulSet;
      // The label controller-revision-hash of each pod, and the name of one.
      const given = [`${metadata.name}-0123456789`, `${metadata.name}-999`];
      const labels = [...Object.values(metadata.labels ?? {}), ...Object.values(spec.template.metadata.labels)];
      for (const name of [...result.objects.map((object) => object.metadata.name), ...given, ...labels])
        expect([name, name.length <= 63]).toEqual([name, true]);
    }
  });

  test("gives an upgrade of a large store the time that the gateway gives it", () => {
    const { periodSeconds, failureThreshold } = replicasOf("default").spec.template.spec.containers[0]["startupProbe"] as {
      readonly periodSeconds: number;
      readonly failureThreshold: number;
    };
    const [, migrationMs = ""] = /const migrationMs = ([\d_]+);/.exec(readFileSync(join(root, "src/store/open.ts"), "utf8")) ?? [];
    expect(periodSeconds * failureThreshold * 1000).toBeGreaterThanOrEqual(Number(migrationMs.replaceAll("_", "")));
  });

  test("has an ingress that speaks TLS to gateways that do, unless you say how it should speak to them", () => {
    const protocol = "nginx.ingress.kubernetes.io/backend-protocol";
    const spoken = (own: Values): unknown => annotationsOf(render({ ...everything, ...own }))[protocol];
    const ingress = everything["ingress"] as Values;
    const tls = { existingSecret: "certificate" };
    expect(spoken({})).toBeUndefined();
    expect(spoken({ tls })).toBe("HTTPS");
    expect(spoken({ tls, ingress: { ...ingress, annotations: null } })).toBe("HTTPS");
    expect(spoken({ tls, ingress: { ...ingress, annotations: { [protocol]: "GRPCS" } } })).toBe("GRPCS");
  });

  test("scales the replicas by hand or by load, not by both", () => {
    expect(replicasOf("default").spec.replicas).toBe(1);
    expect(replicasOf("a secret of your own").spec.replicas).toBe(3);
    expect(replicasOf("everything").spec.replicas).toBeUndefined();
    expect(kind("everything", "HorizontalPodAutoscaler")?.["spec"]).toMatchObject({
      scaleTargetRef: { kind: "StatefulSet", name: replicasOf("everything").metadata.name },
    });
  });

  test.each(names)("meets the restricted standard of pods: %s", (name) => {
    const { spec } = replicasOf(name).spec.template;
    const [uid, gid] = lastOf(stageNamed("sluice"), "USER").split(":").map(Number);
    expect(spec.securityContext).toMatchObject({
      ...{ runAsNonRoot: true, runAsUser: uid, runAsGroup: gid, fsGroup: gid },
      seccompProfile: { type: "RuntimeDefault" },
    });
    expect(spec.containers[0].securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  });

  const validate = toolNamed("kubernetes-validate");
  test.skipIf(validate === null).each(names)("is what the schemas of Kubernetes allow: %s", (name) => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
    // The schemas know what comes with Kubernetes itself; the test below knows the other.
    const files = objectsOf(name)
      .filter((object) => object.kind !== "ServiceMonitor")
      .map((object, at) => {
        const file = join(folder, `${at}-${object.kind}.yaml`);
        // As JSON, which every version of YAML reads in the same way.
        writeFileSync(file, JSON.stringify(object));
        return file;
      });
    const result = checked([validate ?? "", "--strict", ...files]);
    rmSync(folder, { recursive: true });
    expect([result.code, result.said]).toEqual([0, expect.any(String)]);
  });

  test("has a ServiceMonitor with fields that the operator of Prometheus has, and with no others", () => {
    const schema = JSON.parse(readFileSync(join(root, "test/fixtures/kubernetes/service-monitor.schema.json"), "utf8")) as Schema;
    const validator = new Validator(schema, "7", false);
    const monitors = names.flatMap((name) => objectsOf(name).filter((object) => object.kind === "ServiceMonitor"));
    expect(monitors.map((monitor) => validator.validate(monitor).errors)).toEqual([[], [], []]);
    const endpoints = monitors.map(({ spec }) => (spec as { readonly endpoints: readonly unknown[] }).endpoints);
    expect(endpoints).toEqual([
      [expect.objectContaining({ scheme: "http" })],
      [expect.objectContaining({ scheme: "http" })],
      [expect.objectContaining({ scheme: "https", tlsConfig: { insecureSkipVerify: true } })],
    ]);
  });
});

/** Objects in one order; without what depends on how a text is indented. */
function comparable(objects: readonly KubernetesObject[]): readonly unknown[] {
  const read = (_: string, value: unknown): unknown => {
    if (typeof value !== "object" || value === null) return value;
    const { "sluice.yaml": file, ...rest } = value as Record<string, unknown>;
    const kept = Object.entries(rest).filter(([name]) => !name.startsWith("checksum/"));
    return Array.isArray(value) ? value : { ...Object.fromEntries(kept), ...(typeof file === "string" ? { settings: parse(file) } : {}) };
  };
  return objects
    .toSorted((one, other) => `${one.kind} ${one.metadata.name}`.localeCompare(`${other.kind} ${other.metadata.name}`))
    .map((object) => JSON.parse(JSON.stringify(object, read)) as unknown);
}

const helm = toolNamed("helm");
const oldestKubernetes = /\d+\.\d+\.\d+/.exec(String(chart["kubeVersion"]))?.[0] ?? "";
const conform = toolNamed("kubeconform");
describe.skipIf(helm === null)("Helm", () => {
  let isOffline = false;
  const valuesFile = (own: Values): { readonly file: string; readonly folder: string } => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
    writeFileSync(join(folder, "values.yaml"), stringify(own));
    return { folder, file: join(folder, "values.yaml") };
  };

  test.each(Object.entries(cases))("finds nothing wrong with the chart: %s", (_, own) => {
    const { folder, file } = valuesFile(own);
    // Without a cluster, Helm assumes a Kubernetes of the time when it was built, or a very old one.
    const options = ["--values", file, "--namespace", "ai", "--kube-version", oldestKubernetes];
    const linted = checked([helm ?? "", "lint", "--strict", chartFolder, ...options]);
    const template = checked([helm ?? "", "template", "prod", chartFolder, ...options]);
    // It downloads its schemas, so it can say something only where there is a network.
    const conforms =
      conform === null || isOffline ? { code: 0, said: "" } : checked([conform, "-strict", "-ignore-missing-schemas"], template.said);
    isOffline ||= /download|dial tcp|no such host/.test(conforms.said);
    rmSync(folder, { recursive: true });
    expect([linted.code, linted.said]).toEqual([0, expect.any(String)]);
    expect([template.code, template.said]).toEqual([0, expect.stringContaining("kind: StatefulSet")]);
    // What the other tests of this file look at is what Helm makes.
    const byHelm = parseAllDocuments(template.said).flatMap((document) => (document.toJS() as KubernetesObject | null) ?? []);
    const ours = render(own);
    expect(comparable("error" in ours ? [] : ours.objects)).toEqual(comparable(byHelm));
    if (!isOffline) expect([conforms.code, conforms.said]).toEqual([0, expect.any(String)]);
  });

  test.each(refused)("refuses what could not work, in the words of the chart: %s", (why, own) => {
    const { folder, file } = valuesFile(own);
    const { code, said } = checked([helm ?? "", "template", "prod", chartFolder, "--values", file, "--kube-version", oldestKubernetes]);
    rmSync(folder, { recursive: true });
    expect([code, said]).toEqual([1, expect.stringContaining(why)]);
  });
});
