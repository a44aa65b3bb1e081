import { resolve } from "node:path";
import { optionsOf, presets, type Preset, type PresetEnvironment } from "../dialects/presets.ts";
import type { LocalModel } from "../channels/channel.ts";
import type { ReadSecretFile } from "./channel.ts";
import type { Environment } from "./interpolate.ts";
import type { Document } from "./document.ts";
import { defaultDataDir } from "./schema.ts";
import { normalise } from "./normalise.ts";
import type { Problem } from "./findings/problem.ts";
import type { Places, Settings } from "./settings.ts";

/** A provider that was found in the environment, and its variable. */
export interface DetectedProvider {
  readonly channel: string;
  readonly variable: string;
}

export type EnvironmentSettings =
  | {
      readonly ok: true;
      readonly settings: Settings;
      readonly found: readonly DetectedProvider[];
      readonly lookedFor: readonly string[];
      readonly warnings: readonly Problem[];
      /** What a file would say. */
      readonly document: Document;
    }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly lookedFor: readonly string[] };

/** The variable with the only client key of a gateway without a file. */
export const clientKeyVariable = "SLUICE_KEY";

/** The variable that turns the local models off. */
export const localVariable = "SLUICE_EMBEDDED";

/** The variables for what stands in front of the gateway, and the settings that they are. */
export const edgeVariables = [
  { variable: "SLUICE_TLS_CERT_FILE", path: "tls.cert_file" },
  { variable: "SLUICE_TLS_KEY_FILE", path: "tls.key_file" },
  { variable: "SLUICE_TLS_CLIENT_CA_FILE", path: "tls.client_ca_file" },
  { variable: "SLUICE_TLS_CLIENT_CERTIFICATES", path: "tls.client_certificates" },
  { variable: "SLUICE_TRUSTED_PROXIES", path: "server.trusted_proxies" },
] as const;

/** The variables that add a channel if they are set. */
export const providerVariables: readonly string[] = presets.flatMap(({ environment, needsKey }) =>
  needsKey
    ? [...environment.key, ...(environment.keyParts ?? []).slice(0, 1).map(({ variable }) => variable), ...(environment.keyFile ?? [])]
    : environment.address,
);

/**
 * Makes settings without a file: every provider whose key is in the environment becomes a channel of that name. Its models are
 * discovered; if the provider does not list them, the channel takes any name that no other channel lists.
 */
export function settingsFromEnvironment({
  env,
  nofile,
  nowMs,
  localModels = () => [],
  readSecretFile = () => null,
  checksCertificate = true,
}: {
  readonly env: Environment;
  readonly nofile: number;
  readonly nowMs?: number;
  /** The models that can run on this machine; none by default. */
  readonly localModels?: (dataDir: string) => readonly LocalModel[];
  /** Reads a file with a key; none can be read by default. */
  readonly readSecretFile?: ReadSecretFile;
  readonly checksCertificate?: boolean;
}): EnvironmentSettings {
  const dataDir = defaultDataDir;
  const entries: Record<string, unknown>[] = [];
  const found: DetectedProvider[] = [];
  const warnings: Problem[] = [];
  for (const preset of presets) {
    const reading = providerEntry(preset, env);
    if (reading === null) continue;
    if ("lacks" in reading) {
      warnings.push({
        line: null,
        path: reading.variable,
        reason: `this is set, but ${reading.lacks.join(" or ")} is not, so no channel was added`,
        fix: `set ${reading.lacks[0] ?? ""} as well`,
      });
      continue;
    }
    for (const entry of [reading.entry, ...besideOf(preset, reading.entry)]) {
      entries.push(entry);
      found.push({ channel: String(entry["name"]), variable: reading.variable });
    }
  }
  const isDisabled = ["off", "0", "false", "no"].includes(valueOf(env, localVariable)?.toLowerCase() ?? "");
  if (localModels(dataDir).length > 0 && !isDisabled) entries.push({ name: "embedded", provider: "embedded" });
  const clientKey = valueOf(env, clientKeyVariable);
  const keys = clientKey === null ? [] : [{ name: "environment", key: clientKey }];
  const value = { channels: entries, keys, ...edgeOf(env) };
  const document: Document = {
    value,
    unresolved: value,
    lineOf: () => null,
    variablesOf: (path) => {
      const [list, at] = path;
      if (list === "keys") return [clientKeyVariable];
      if (list === "channels") return typeof at === "number" ? found.slice(at, at + 1).map(({ variable }) => variable) : [];
      return edgeVariables.filter((one) => path.join(".").startsWith(one.path)).map(({ variable }) => variable);
    },
  };
  const resolvePath = (path: string): string => resolve(path);
  const normalised = normalise(document, {
    nofile,
    nowMs: nowMs ?? Date.now(),
    readSecretFile,
    resolvePath,
    checksCertificate,
    localModels,
  });
  // There is no file with lines to name, so problems name the variable.
  const byVariable = (problem: Problem): Problem => ({ ...problem, path: variableAt(problem.path, found) });
  if (!normalised.ok) return { ok: false, problems: normalised.problems.map(byVariable), lookedFor: providerVariables };
  const others = normalised.warnings.filter((warning) => warning.path !== "channels").map(byVariable);
  return {
    ok: true,
    settings: { ...normalised.settings, places: placesIn(found) },
    found,
    lookedFor: providerVariables,
    warnings: [...warnings, ...others],
    document,
  };
}

/** The embedded channel needs no variable. */
function placesIn(found: readonly DetectedProvider[]): Places {
  return {
    groups: new Map(),
    keys: new Map([["environment", `the environment (${clientKeyVariable})`]]),
    channels: new Map([
      ["embedded", "the defaults of a gateway without a file"],
      ...found.map(({ channel, variable }) => [channel, `the environment (${variable})`] as const),
    ]),
    prices: new Map(),
  };
}

function edgeOf(env: Environment): Record<string, Record<string, unknown>> {
  const given: Record<string, Record<string, unknown>> = {};
  for (const { variable, path } of edgeVariables) {
    const value = valueOf(env, variable);
    if (value === null) continue;
    const [group, setting] = path.split(".") as [string, string];
    const isList = variable === "SLUICE_TRUSTED_PROXIES";
    given[group] = { ...given[group], [setting]: isList ? value.split(",").map((item) => item.trim()) : value };
  }
  return given;
}

type ProviderEntry =
  | { readonly entry: Record<string, unknown>; readonly variable: string }
  | { readonly variable: string; readonly lacks: readonly string[] }
  | null;

function providerEntry(preset: Preset, env: Environment): ProviderEntry {
  const { environment } = preset;
  const own = firstSet(env, environment.key);
  const joined = own === null ? joinedKey(env, environment) : null;
  const file = own === null && joined === null ? firstSet(env, environment.keyFile ?? []) : null;
  const key = own ?? joined ?? file;
  const resource = firstSet(env, environment.resource ?? []);
  const address = firstSet(env, environment.address);
  const region = firstSet(env, environment.region);
  const trigger = preset.needsKey ? key : address;
  if (trigger === null) return null;
  const options = optionsOf(preset);
  const isRegional = options.includes("region");
  // Where the address is that of a region, either of the two will do.
  const lacksAddress = environment.address.length > 0 && !isRegional ? address === null : options.includes("resource") && resource === null;
  const lacksRegion = isRegional && region === null && address === null;
  // These variables are set for other programs as well: alone, they do not mean that a channel is wanted.
  if (own === null && key !== null && (lacksAddress || lacksRegion)) return null;
  if (environment.address.length > 0 && !isRegional && address === null) return { variable: trigger.name, lacks: environment.address };
  if (lacksRegion) return { variable: trigger.name, lacks: [...environment.region, ...environment.address] };
  const entry: Record<string, unknown> = { name: preset.name, provider: preset.name };
  if (file !== null) entry["api_key_file"] = file.value;
  else if (key !== null) entry["api_key"] = key.value;
  if (joined !== null && environment.keyPartsAuth !== undefined) entry["auth"] = environment.keyPartsAuth;
  if (resource !== null && address === null && options.includes("resource")) entry["resource"] = resource.value;
  if (region !== null && isRegional && address === null) entry["region"] = region.value;
  if (address !== null) entry["base_url"] = baseUrlOf(address.value, preset);
  if (preset.modelsPath === null) entry["models"] = "*";
  return { entry, variable: trigger.name };
}

/** The channel for what only another API of the provider has, if there is one. */
function besideOf({ name, environment: { beside } }: Preset, entry: Record<string, unknown>): readonly Record<string, unknown>[] {
  if (beside === undefined) return [];
  const { suffix, dialect, operations } = beside;
  return [{ ...entry, name: `${name}-${suffix}`, dialect, capabilities: { operations } }];
}

/**
 * Such variables hold a `host`, a `host:port` or a URL, because servers read them as the address to listen on. A server that listens on
 * all addresses is reached on this machine.
 */
export function baseUrlOf(text: string, preset: Preset): string {
  const { port, protocol } = new URL(preset.baseUrl.replaceAll(/[{}]/g, ""));
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  const trimmed = (whole ? text : `${protocol}//${text.startsWith(":") ? `127.0.0.1${text}` : text}`).replace(/\/+$/, "");
  if (!URL.canParse(trimmed)) return text;
  const url = new URL(trimmed);
  if (!whole && url.port === "") url.port = port;
  if (url.hostname === "0.0.0.0") url.hostname = "127.0.0.1";
  if (url.hostname === "[::]") url.hostname = "[::1]";
  const path = url.pathname.replace(/\/+$/, "");
  // The result is checked like any other address, so whatever else is wrong with it is reported there.
  url.pathname = path.endsWith(preset.environment.addressPath) ? path : path + preset.environment.addressPath;
  return url.href.replace(/\/+$/, "");
}

/** A key that is in several variables. */
function joinedKey(env: Environment, { keyParts = [] }: PresetEnvironment): { readonly name: string; readonly value: string } | null {
  const values = keyParts.map(({ variable, optional }) => valueOf(env, variable) ?? (optional ? "" : null));
  const name = keyParts[0]?.variable;
  return name === undefined || values.includes(null) ? null : { name, value: values.join(":") };
}

function firstSet(env: Environment, names: readonly string[]): { readonly name: string; readonly value: string } | null {
  for (const name of names) {
    const value = valueOf(env, name);
    if (value !== null) return { name, value };
  }
  return null;
}

function valueOf(env: Environment, name: string): string | null {
  const value = Object.hasOwn(env, name) ? env[name]?.trim() : undefined;
  return value === undefined || value === "" ? null : value;
}

function variableAt(path: string, found: readonly DetectedProvider[]): string {
  const index = /^channels\[(\d+)\]/.exec(path)?.[1];
  if (index !== undefined) return found[Number(index)]?.variable ?? "";
  return path.startsWith("keys") ? clientKeyVariable : (edgeVariables.find((one) => one.path === path)?.variable ?? path);
}
