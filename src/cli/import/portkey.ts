import { portkeyProviders, portkeyPaths } from "../../dialects/foreign-names.ts";
import {
  addressWith,
  fieldsOf,
  Importer,
  listOf,
  noteUnread,
  numberOf,
  seconds,
  textOf,
  type ForeignFields,
  type ImportedConfiguration,
} from "./imported.ts";

/** Reads a gateway config of Portkey (https://portkey.ai/docs/product/ai-gateway/configs). */
export function importPortkey(document: unknown): ImportedConfiguration {
  const importer = new Importer();
  const attempts: number[] = [];
  readTarget(importer, fieldsOf(document), "config", { tier: 1, weight: 1, depth: 0, attempts });
  const routing = attempts.length === 0 ? undefined : { attempts: Math.min(10, Math.max(1, ...attempts) + 1) };
  return importer.finish({ ...(routing === undefined ? undefined : { routing }) });
}

interface Position {
  readonly tier: number;
  readonly weight: number;
  readonly depth: number;
  /** The retries of all targets: here they are a setting of the whole gateway. */
  readonly attempts: number[];
}

/** Targets nest; the service itself allows a few levels. */
const depthMax = 8;

/** Returns how many tiers the target takes. */
function readTarget(importer: Importer, config: ForeignFields, where: string, at: Position): number {
  const retries = numberOf(fieldsOf(config["retry"])["attempts"]);
  if (retries !== null) at.attempts.push(Math.round(retries));
  const targets = listOf(config["targets"]);
  if (targets.length > 0 && at.depth < depthMax) return readTargets(importer, config, targets, where, at);
  readDeployment(importer, config, where, at);
  return 1;
}

function readTargets(importer: Importer, config: ForeignFields, targets: readonly unknown[], where: string, at: Position): number {
  const strategy = fieldsOf(config["strategy"]);
  const mode = textOf(strategy["mode"]) ?? "single";
  if (mode !== "fallback" && mode !== "loadbalance" && mode !== "single") {
    importer.note(`${where}.strategy: the mode "${mode}" is not carried over; its targets share the load`);
  }
  if (strategy["on_status_codes"] !== undefined) {
    importer.note(
      `${where}.strategy.on_status_codes: not carried over; the gateway decides by the kind of failure whether another channel may succeed`,
    );
  }
  noteUnread(importer, where, config, new Set(["strategy", "targets", "retry", "weight"]));
  let tiers = 0;
  targets.forEach((target, index) => {
    const fields = fieldsOf(target);
    const below = {
      ...at,
      depth: at.depth + 1,
      tier: mode === "fallback" ? at.tier + tiers : at.tier,
      weight: mode === "loadbalance" ? at.weight * positive(numberOf(fields["weight"])) : at.weight,
    };
    const taken = readTarget(importer, fields, `${where}.targets[${index}]`, below);
    tiers = mode === "fallback" ? tiers + taken : Math.max(tiers, taken);
  });
  return Math.max(1, tiers);
}

const targetFields: ReadonlySet<string> = new Set([
  "provider",
  "api_key",
  "virtual_key",
  "custom_host",
  "resource_name",
  "deployment_id",
  "api_version",
  "aws_region",
  "region",
  "override_params",
  "request_timeout",
  "retry",
  "weight",
  "strategy",
]);

function readDeployment(importer: Importer, config: ForeignFields, where: string, { tier, weight }: Position): void {
  const virtual = textOf(config["virtual_key"]);
  const called = textOf(config["provider"])?.replace(/^@/, "") ?? virtual;
  if (called === null) return importer.note(`${where}: it names neither a provider nor a virtual key`);
  const host = textOf(config["custom_host"]);
  const preset = portkeyProviders[called];
  const provider = preset === undefined && host !== null ? null : importer.preset(preset, where, called);
  const overrides = fieldsOf(config["override_params"]);
  const model = textOf(overrides["model"]) ?? textOf(config["deployment_id"]);
  const name = virtual ?? provider ?? called;
  const timeout = numberOf(config["request_timeout"]);
  const secret = textOf(config["api_key"]) ?? virtual;
  const meaning = virtual === null ? `the API key of ${name}` : `the API key behind the virtual key "${virtual}"`;
  const settings = {
    ...(provider === null ? undefined : { provider }),
    ...(host === null ? undefined : { base_url: baseUrl(provider, host) }),
    ...(secret === null ? undefined : { api_key: importer.secret(secret, `${name}_API_KEY`, meaning) }),
    ...given("resource", config["resource_name"]),
    ...given("api_version", config["api_version"]),
    ...given("region", config["aws_region"] ?? config["region"]),
    ...(timeout === null ? undefined : { timeouts: { first_byte: seconds(timeout / 1000) } }),
  };
  if (model !== null)
    importer.note(`${where}: every request was sent to the model "${model}"; here clients have to ask for it by that name`);
  noteUnread(importer, `${where}.override_params`, overrides, new Set(["model"]));
  noteUnread(importer, where, config, targetFields);
  importer.add({ model, upstreamModel: model ?? "*", target: { name, settings }, tier, weight });
}

function given(name: string, value: unknown): ForeignFields {
  const text = textOf(value);
  return text === null ? {} : { [name]: text };
}

function positive(weight: number | null): number {
  return weight !== null && weight > 0 ? weight : 1;
}

function baseUrl(provider: string | null, host: string): string {
  return addressWith(portkeyPaths[provider ?? ""] ?? "", host);
}
