import { createHash } from "node:crypto";
import type { LocalModel } from "../channels/channel.ts";
import { readChannel, type ReadSecretFile } from "./channel.ts";
import { configWarnings } from "./findings/config-warnings.ts";
import type { Document } from "./document.ts";
import { misspeltChannels } from "./findings/misspelt-channels.ts";
import { problem, type Finding, pathText, type Path, type Problem } from "./findings/problem.ts";
import { readGroups } from "./keys/group.ts";
import { readKey } from "./keys/key.ts";
import { readSignIn } from "./identity/sign-in.ts";
import { readTokenIssuers } from "./identity/token-issuers.ts";
import { schemaProblems } from "./findings/schema-problems.ts";
import { fileSchema, noticeTypes, type ConfigFile, type PriceEntry } from "./schema.ts";
import type { Places, Settings, TlsSettings } from "./settings.ts";
import { readTlsFiles } from "./tls-files.ts";
import type { TrustedProxies } from "../gateway/snapshot.ts";
import { ratesOfFields } from "../usage/price-fields.ts";
import { priceName, type Price } from "../usage/price.ts";

export type Normalised =
  | { readonly ok: true; readonly settings: Settings; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** What a configuration depends on besides its own text. */
export interface NormaliseContext {
  /** The file it came from, for messages. */
  readonly file?: string | null;
  /** How many files the process may have open. */
  readonly nofile: number;
  readonly nowMs: number;
  readonly readSecretFile: ReadSecretFile;
  /** Makes a path of the configuration absolute. */
  readonly resolvePath: (path: string) => string;
  /** Only who listens needs a certificate: a key can be revoked although it has expired. */
  readonly checksCertificate: boolean;
  /** The models that can run on this machine. */
  readonly localModels: (dataDir: string) => readonly LocalModel[];
}

/** Checks parsed values against the schema and against each other, and fills in defaults. */
export function normalise({ value, unresolved, lineOf }: Document, context: NormaliseContext): Normalised {
  const checked = fileSchema.safeParse(value);
  if (!checked.success) return { ok: false, problems: sortedByLine(schemaProblems(checked.error.issues, fileSchema, lineOf)) };
  const file = checked.data;
  const localModels = file.channels.length === 0 ? [] : context.localModels(file.data_dir);
  const channels = file.channels.map((entry, at) =>
    readChannel(entry, ["channels", at], { readSecretFile: context.readSecretFile, localModels }),
  );
  const groups = readGroups(file.groups);
  const groupNames = new Set(file.groups.map(({ name }) => name));
  const keys = file.keys.map((entry, at) => readKey(entry, ["keys", at], context.nowMs, groupNames));
  const tls = tlsOf(file, context.resolvePath);
  const adminSecure = file.admin_tls || tls?.admin === true;
  const signIn = readSignIn(file, adminSecure);
  const issuers = readTokenIssuers(
    file,
    keys.map(({ key }) => key.key),
    groupNames,
  );
  const findings: Finding[] = [
    ...duplicates(
      file.channels.map((entry) => entry.name),
      "channels",
      "name",
      "another channel has this name",
    ),
    ...duplicates(
      file.groups.map((entry) => entry.name),
      "groups",
      "name",
      "another group has this name",
    ),
    ...duplicates(
      file.keys.map((entry) => entry.name),
      "keys",
      "name",
      "another key has this name",
    ),
    ...duplicates(
      file.keys.map((entry) => entry.key),
      "keys",
      "key",
      "another entry has the same key",
    ),
    ...channels.flatMap((channel) => channel.findings),
    ...groups.findings,
    ...keys.flatMap((key) => key.findings),
    ...signIn.findings,
    ...issuers.findings,
    ...duplicates(
      file.token_issuers.map((entry) => entry.name),
      "token_issuers",
      "name",
      "another issuer has this name",
    ),
    ...duplicates(
      file.token_issuers.map((entry) => entry.issuer),
      "token_issuers",
      "issuer",
      "this issuer is listed already",
    ),
    ...storeProblems(file),
    ...metricsProblems(file),
    ...webhookProblems(file),
    ...tlsFindings(tls, context),
    ...configWarnings(file, value),
    ...misspeltChannels(file),
  ];
  const ofSeverity = (severity: Finding["severity"]): Problem[] =>
    sortedByLine(
      findings
        .filter((finding) => finding.severity === severity)
        .map(({ path, reason, fix }) => ({ line: lineOf(path), path: pathText(path), reason, fix })),
    );
  const problems = ofSeverity("problem");
  if (problems.length > 0) return { ok: false, problems };

  const secrets = new Map(channels.flatMap((channel) => channel.secrets));
  return {
    ok: true,
    settings: {
      listen: file.listen,
      listenMode: file.listen_mode,
      admin: file.admin,
      tls,
      adminNames: file.admin_names ?? [],
      adminSecure,
      dataDir: file.data_dir,
      store: file.store,
      storeConnections: file.store_connections,
      readStore: file.read_store,
      state: file.state,
      stateLoss: file.state_loss,
      allowPrivate: file.allow_private,
      prices: file.prices.map(readPrice),
      receipts: {
        sync: file.receipts.sync,
        keepMs: file.receipts.keep,
        keepHoursMs: file.receipts.keep_hours,
        keptShare: file.receipts.sample ?? 0,
      },
      channels: channels.flatMap((channel) => channel.setting ?? []),
      secrets,
      groups: groups.groups,
      keys: keys.map((key) => key.key),
      signIn: signIn.settings,
      tokenIssuers: issuers.settings,
      routing: routingOf(file),
      service: serviceOf(file, context.nofile),
      metrics: metricsOf(file),
      otel: otelOf(file),
      webhooks: file.webhooks.map(({ url, secret, events }) => ({ url, secret, types: events ?? noticeTypes })),
      logFormat: file.log.format,
      logLevel: file.log.level,
      written: value,
      unresolved,
      version: versionOf(value, secrets),
      places: placesOf(file, context.file ?? "the configuration file", lineOf),
    },
    warnings: ofSeverity("warning"),
  };
}

function tlsOf({ tls }: ConfigFile, resolvePath: (path: string) => string): TlsSettings | null {
  if (tls === undefined) return null;
  return {
    certFile: resolvePath(tls.cert_file),
    keyFile: resolvePath(tls.key_file),
    clientCaFile: tls.client_ca_file === undefined ? null : resolvePath(tls.client_ca_file),
    clientCertificates: tls.client_certificates,
    admin: tls.admin,
  };
}

function tlsFindings(tls: TlsSettings | null, { checksCertificate, nowMs }: NormaliseContext): readonly Finding[] {
  if (tls === null) return [];
  const asks = tls.clientCertificates !== "none";
  if (asks && tls.clientCaFile === null) {
    const fix = "name a file with the certificates of their issuers";
    return [problem(["tls", "client_ca_file"], "this is missing, so that no client certificate could be checked", fix)];
  }
  if (!asks && tls.clientCaFile !== null) {
    const fix = "set client_certificates to optional or required, or remove the line";
    return [problem(["tls", "client_ca_file"], "this has no effect while client_certificates is none", fix)];
  }
  return checksCertificate ? readTlsFiles(tls, nowMs).findings : [];
}

function placesOf(file: ConfigFile, name: string, lineOf: Document["lineOf"]): Places {
  const places = (list: keyof Places, names: readonly string[]): ReadonlyMap<string, string> =>
    new Map(names.map((entry, at) => [entry, placeText(name, lineOf([list, at]))]));
  return {
    groups: places(
      "groups",
      file.groups.map((entry) => entry.name),
    ),
    keys: places(
      "keys",
      file.keys.map((entry) => entry.name),
    ),
    channels: places(
      "channels",
      file.channels.map((entry) => entry.name),
    ),
    prices: places(
      "prices",
      file.prices.map(({ provider = null, model }) => priceName({ provider, model })),
    ),
  };
}

function placeText(file: string, line: number | null): string {
  return line === null ? file : `${file}, line ${line}`;
}

function metricsOf({ metrics }: ConfigFile): Settings["metrics"] {
  const { enabled, token, data_port: dataPort, key_labels: keyLabels, budgets } = metrics;
  return { enabled, public: metrics.public, token: token ?? null, dataPort, keyLabels, budgets };
}

function otelOf({ otel }: ConfigFile): Settings["otel"] {
  if (otel === undefined) return null;
  return {
    endpoint: otel.endpoint,
    headers: Object.fromEntries(otel.headers ?? []),
    traces: otel.traces,
    metrics: otel.metrics,
    serviceName: otel.service_name,
    share: otel.sample ?? 0,
    tracesPerSecond: otel.sample_per_second ?? Infinity,
    slowMs: otel.slow_after,
    intervalMs: otel.interval,
    propagate: otel.propagate,
    conventions: otel.conventions,
  };
}

function storeProblems({ store, read_store }: ConfigFile): Finding[] {
  if (store !== "sqlite" || read_store === "store") return [];
  return [problem(["read_store"], "the store is a SQLite file, which has no standby", "remove this, or set store to a PostgreSQL")];
}

function metricsProblems({ metrics }: ConfigFile): Finding[] {
  const { token } = metrics;
  if (token !== undefined && token.length < metricsTokenMin) {
    const reason = `this token has fewer than ${metricsTokenMin} characters`;
    return [problem(["metrics", "token"], reason, "make one with: openssl rand -hex 24")];
  }
  if (!metrics.data_port || metrics.public || token !== undefined) return [];
  const reason = "every client could read the metrics there";
  return [problem(["metrics", "data_port"], reason, "set metrics.token, or metrics.public: true if that is meant")];
}

const metricsTokenMin = 16;

function webhookProblems({ webhooks }: ConfigFile): Finding[] {
  return webhooks.flatMap(({ secret }, at) => {
    const path = ["webhooks", at, "secret"];
    if (secret.length < metricsTokenMin) {
      return [problem(path, `this secret has fewer than ${metricsTokenMin} characters`, "make one with: openssl rand -hex 24")];
    }
    const encoded = /^whsec_(.*)$/.exec(secret)?.[1];
    if (encoded === undefined || encodedBytes(encoded) >= metricsTokenMin) return [];
    // What is not base64 would be left out of the key, up to a signature that anybody can make.
    const reason = `behind whsec_ there must be at least ${metricsTokenMin} bytes in base64`;
    return [problem(path, reason, 'make one with: echo "whsec_$(openssl rand -base64 24)"')];
  });
}

/** How many bytes a text in base64 stands for; 0 if it is none. */
function encodedBytes(text: string): number {
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text) ? Buffer.from(text, "base64").length : 0;
}

function sortedByLine(problems: readonly Problem[]): Problem[] {
  return [...problems].sort((one, other) => (one.line ?? 0) - (other.line ?? 0));
}

function duplicates(values: readonly string[], list: string, setting: string, reason: string): Finding[] {
  const seen = new Set<string>();
  return values.flatMap((value, at) => {
    if (!seen.has(value)) {
      seen.add(value);
      return [];
    }
    const path: Path = [list, at, setting];
    return [problem(path, reason, "give each its own")];
  });
}

function routingOf({ routing }: ConfigFile): Settings["routing"] {
  return {
    attemptsMax: routing.attempts,
    hedgeAfterMs: routing.hedge_after,
    rescue: routing.rescue,
    waitMs: routing.wait ?? 0,
    streamDeadlineMs: routing.deadlines.stream,
    wholeDeadlineMs: routing.deadlines.whole,
  };
}

function serviceOf({ server, responses, expose, cors }: ConfigFile, nofile: number): Settings["service"] {
  return {
    bodyBytesMax: server.body_limit,
    audioBytesMax: server.audio_limit,
    speechCharactersMax: server.speech_limit,
    longAudioBytesMax: Math.max(server.audio_limit, server.long_audio_limit),
    longSpeechCharactersMax: Math.max(server.speech_limit, server.long_speech_limit),
    keepAliveMs: server.keep_alive ?? 0,
    earlyHeadersMs: server.early_headers ?? 0,
    writeStallMs: server.write_stall,
    bodyReadMs: server.body_read,
    uploadReadMs: server.upload_read,
    uploadsMax: server.uploads,
    inFlightMax: server.in_flight ?? inFlightOf(nofile),
    exposeChannels: expose === "all",
    wrongKeysMax: server.wrong_keys,
    connectionsPerAddressMax: server.connections_per_address,
    trustedProxies: trustedProxiesOf(server),
    corsOrigins: cors === undefined ? null : new Set(cors.origins),
    openAudioLists: server.open_audio_lists,
    keepItemsMs: responses.keep_items ?? 0,
    lingerMs: server.linger,
    drainMs: server.drain,
  };
}

function trustedProxiesOf({ trusted_proxies: networks, forwarded_header: header }: ConfigFile["server"]): TrustedProxies | null {
  if (networks === undefined) return null;
  return { prefixes: networks.filter((network) => network !== "unix"), overUnixSocket: networks.includes("unix"), header };
}

/** A rate that is not given stays unknown, instead of 0. */
function readPrice({ provider, model, from, ...rates }: PriceEntry): Price {
  return { provider: provider ?? null, model, fromMs: from ?? 0, rates: ratesOfFields(rates) };
}

/** Each request may hold two sockets, and the process needs some files for itself. */
function inFlightOf(nofile: number): number {
  return Math.max(16, Math.min(10_000, Math.floor((nofile - 256) / 2)));
}

function versionOf(value: unknown, secrets: ReadonlyMap<string, string>): string {
  const hash = createHash("sha256");
  hash.update(JSON.stringify([value, [...secrets]]) ?? "");
  return hash.digest("hex").slice(0, 12);
}
