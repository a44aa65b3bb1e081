import { litellmDefault, litellmProviders, litellmPaths, organizationHeader, resourceIn } from "../../dialects/foreign-names.ts";
import {
  addressWith,
  fieldsOf,
  Importer,
  isOwnAddress,
  listOf,
  noteUnread,
  numberOf,
  seconds,
  textOf,
  type ForeignFields,
  type ImportedConfiguration,
  type ImportedTarget,
} from "./imported.ts";

/** Reads the configuration of a LiteLLM proxy (https://docs.litellm.ai/docs/proxy/configs). */
export function importLitellm(document: unknown): ImportedConfiguration {
  const importer = new Importer();
  const file = fieldsOf(document);
  const prices: ForeignFields[] = [];
  listOf(file["model_list"]).forEach((entry, at) => readModel(importer, fieldsOf(entry), `model_list[${at}]`, prices));
  const router = fieldsOf(file["router_settings"]);
  const settings = fieldsOf(file["litellm_settings"]);
  addAliases(importer, fieldsOf(router["model_group_alias"] ?? settings["model_group_alias"]));
  addFallbacks(importer, [...listOf(router["fallbacks"]), ...listOf(settings["fallbacks"])]);
  const routing = readRouting(router, settings);
  const keys = readKeys(importer, fieldsOf(file["general_settings"]));
  noteUnread(importer, "router_settings", router, new Set(["model_group_alias", "fallbacks", "num_retries", "timeout"]));
  noteUnread(importer, "litellm_settings", settings, new Set(["model_group_alias", "fallbacks", "num_retries", "request_timeout"]));
  noteUnread(importer, "general_settings", fieldsOf(file["general_settings"]), new Set(["master_key"]));
  noteUnread(importer, "the file", file, new Set(["model_list", "router_settings", "litellm_settings", "general_settings"]));
  return importer.finish({
    ...(keys.length === 0 ? undefined : { keys }),
    ...(Object.keys(routing).length === 0 ? undefined : { routing }),
    ...(prices.length === 0 ? undefined : { prices }),
  });
}

function readModel(importer: Importer, entry: ForeignFields, where: string, prices: ForeignFields[]): void {
  const parameters = fieldsOf(entry["litellm_params"]);
  const model = textOf(entry["model_name"]);
  const named = textOf(parameters["model"]);
  if (model === null || named === null) return importer.note(`${where}: it has no model_name or no litellm_params.model`);
  const slash = named.indexOf("/");
  const prefix = slash < 0 ? "" : named.slice(0, slash);
  const custom = textOf(parameters["custom_llm_provider"]) ?? (prefix in litellmProviders ? prefix : null);
  const called = custom ?? (slash < 0 || prefix === "" ? litellmDefault : prefix);
  const upstreamModel = slash >= 0 && (prefix === called || prefix in litellmProviders) ? named.slice(slash + 1) : named;
  const anyModel = model === "*" && upstreamModel === "*";
  if (!anyModel && (model.includes("*") || upstreamModel.includes("*"))) {
    return importer.note(`${where}: the pattern "${model}" is not carried over; list its models, or use models: "*" on a channel`);
  }
  const target = targetOf(importer, parameters, called, where);
  const tier = Math.max(0, Math.round(numberOf(parameters["order"]) ?? 1));
  const weight = numberOf(parameters["weight"]) ?? 1;
  importer.add({ model: anyModel ? null : model, upstreamModel, target, tier, weight: weight > 0 ? weight : 1 });
  readPrice(fieldsOf(entry["model_info"]), parameters, upstreamModel, target, prices);
  noteUnread(importer, where, entry, entryFields);
  noteUnread(importer, `${where}.litellm_params`, parameters, parameterFields);
}

const entryFields: ReadonlySet<string> = new Set(["model_name", "litellm_params", "model_info"]);
const costFields = [
  "input_cost_per_token",
  "output_cost_per_token",
  "cache_read_input_token_cost",
  "cache_creation_input_token_cost",
  "cache_creation_input_token_cost_above_1hr",
];
const parameterFields: ReadonlySet<string> = new Set([
  "model",
  "custom_llm_provider",
  "api_base",
  "base_url",
  "api_key",
  "api_version",
  "organization",
  "extra_headers",
  "timeout",
  "stream_timeout",
  "max_parallel_requests",
  "order",
  "weight",
  "aws_region_name",
  "aws_access_key_id",
  "aws_secret_access_key",
  "vertex_location",
  ...costFields,
]);

function targetOf(importer: Importer, parameters: ForeignFields, called: string, where: string): ImportedTarget {
  const address = settingOf(importer, parameters["api_base"] ?? parameters["base_url"], "https://api.example.com");
  const apiVersion = settingOf(importer, parameters["api_version"]);
  const preset = litellmProviders[called];
  // There, the name of the default provider with another address means any upstream that speaks its API.
  const isPlain = address !== null && (preset === undefined || (called === litellmDefault && !isOwnAddress(preset, address)));
  const provider = isPlain ? null : importer.preset(preset, where, called);
  const name = provider ?? (address === null ? called : hostOf(address));
  const resource = resourceIn(address);
  const headers = headersOf(parameters);
  const timeouts = timeoutsOf(parameters);
  const concurrency = numberOf(parameters["max_parallel_requests"]);
  const settings = {
    ...(provider === null ? undefined : { provider }),
    ...(address === null ? undefined : resource === null ? { base_url: baseUrl(provider, address, apiVersion) } : { resource }),
    ...secretOf(importer, parameters, name),
    ...one("api_version", apiVersion),
    ...one("region", settingOf(importer, parameters["aws_region_name"] ?? parameters["vertex_location"])),
    ...(concurrency === null || concurrency < 1 ? undefined : { concurrency: Math.round(concurrency) }),
    ...(Object.keys(timeouts).length === 0 ? undefined : { timeouts }),
    ...(Object.keys(headers).length === 0 ? undefined : { headers }),
  };
  return { name, settings };
}

/** `os.environ/NAME` is a variable; anything else is the secret itself, which stays out of the file. */
function secretOf(importer: Importer, parameters: ForeignFields, name: string): ForeignFields {
  const id = textOf(parameters["aws_access_key_id"]);
  const secret = textOf(parameters["aws_secret_access_key"]);
  if (id !== null && secret !== null) {
    const pair = [reference(importer, id, "AWS_ACCESS_KEY_ID", name), reference(importer, secret, "AWS_SECRET_ACCESS_KEY", name)];
    return { auth: "aws", api_key: pair.join(":") };
  }
  const key = textOf(parameters["api_key"]);
  return key === null ? {} : { api_key: reference(importer, key, `${name}_API_KEY`, name) };
}

/** A setting that is no secret, and may stand in a variable all the same. */
function settingOf(importer: Importer, value: unknown, sample?: string): string | null {
  const text = textOf(value);
  const variable = variableIn(text ?? "");
  return variable === undefined ? text : importer.variable(variable, sample);
}

function variableIn(value: string): string | undefined {
  return /^os\.environ\/(\w+)$/.exec(value)?.[1];
}

function reference(importer: Importer, value: string, variable: string, name: string): string {
  const given = variableIn(value);
  return given === undefined
    ? importer.secret(value, variable, `the secret of ${name}, which stands in the imported file`)
    : importer.variable(given);
}

function headersOf(parameters: ForeignFields): Record<string, string> {
  const given = Object.entries(fieldsOf(parameters["extra_headers"])).flatMap(([name, value]) => {
    const text = textOf(value);
    return text === null || text.startsWith("os.environ/") ? [] : [[name.toLowerCase(), text] as const];
  });
  const organization = textOf(parameters["organization"]);
  if (organization !== null && !organization.startsWith("os.environ/")) given.push([organizationHeader, organization]);
  return Object.fromEntries(given);
}

function timeoutsOf(parameters: ForeignFields): Record<string, string> {
  const whole = numberOf(parameters["timeout"]);
  const stream = numberOf(parameters["stream_timeout"]);
  return {
    ...(whole === null ? undefined : { first_byte: seconds(whole) }),
    ...(stream === null ? undefined : { first_content: seconds(stream) }),
  };
}

function readPrice(
  info: ForeignFields,
  parameters: ForeignFields,
  model: string,
  { settings }: ImportedTarget,
  prices: ForeignFields[],
): void {
  const [input, output, cached, written, writtenHour] = costFields.map((name) => numberOf(info[name] ?? parameters[name]));
  if (input == null && output == null) return;
  const price = {
    ...one("provider", textOf(settings["provider"])),
    model,
    ...(input == null ? undefined : { input: perMillion(input) }),
    ...(cached == null ? undefined : { cached_input: perMillion(cached) }),
    ...(written == null ? undefined : { cache_write: perMillion(written) }),
    ...(writtenHour == null ? undefined : { cache_write_hour: perMillion(writtenHour) }),
    ...(output == null ? undefined : { output: perMillion(output) }),
  };
  if (!prices.some((known) => known["model"] === model && known["provider"] === price["provider" as keyof typeof price]))
    prices.push(price);
}

/** Without the noise of a floating-point product. */
function perMillion(dollars: number): number {
  return Number((dollars * 1e6).toPrecision(12));
}

/** Another name for a group of deployments. */
function addAliases(importer: Importer, aliases: ForeignFields): void {
  for (const [alias, value] of Object.entries(aliases)) {
    const group = textOf(value) ?? textOf(fieldsOf(value)["model"]);
    const known = importer.found.filter(({ model }) => model === group);
    if (known.length === 0) importer.note(`model_group_alias: "${alias}" stands for "${group ?? ""}", which is not in model_list`);
    for (const deployment of known) importer.add({ ...deployment, model: alias });
  }
}

/** The deployments of a fallback serve the model as well, in later tiers. */
function addFallbacks(importer: Importer, fallbacks: readonly unknown[]): void {
  const before = importer.found.slice();
  for (const fallback of fallbacks) {
    for (const [model, others] of Object.entries(fieldsOf(fallback))) {
      const last = Math.max(1, ...before.filter((known) => known.model === model).map(({ tier }) => tier));
      listOf(others).forEach((other, at) => {
        const name = textOf(other);
        const known = before.filter((deployment) => deployment.model === name);
        if (known.length === 0) importer.note(`fallbacks: "${model}" falls back to "${name ?? "?"}", which is not in model_list`);
        for (const deployment of known) importer.add({ ...deployment, model, tier: last + at + 1 });
      });
    }
  }
}

function readRouting(router: ForeignFields, settings: ForeignFields): Record<string, unknown> {
  const retries = numberOf(router["num_retries"] ?? settings["num_retries"]);
  const timeout = numberOf(router["timeout"] ?? settings["request_timeout"]);
  return {
    ...(retries === null ? undefined : { attempts: Math.min(10, Math.max(1, Math.round(retries) + 1)) }),
    ...(timeout === null ? undefined : { deadlines: { whole: seconds(timeout) } }),
  };
}

function readKeys(importer: Importer, general: ForeignFields): readonly ForeignFields[] {
  const master = textOf(general["master_key"]);
  if (master === null) return [];
  const key = reference(importer, master, "LITELLM_MASTER_KEY", "the master key");
  importer.note(
    "general_settings.master_key: it becomes a client key; keys of the other gateway's database are not in the file, so create new ones with `sluice keys create`",
  );
  return [{ name: "master", key }];
}

function one(name: string, value: string | null): ForeignFields {
  return value === null ? {} : { [name]: value };
}

/** An API with a dated version has its paths below the address itself. */
function baseUrl(provider: string | null, address: string, apiVersion: string | null): string {
  const path = apiVersion === null ? litellmPaths[provider ?? ""] : undefined;
  return path === undefined ? address.replace(/\/+$/, "").replace(/\/chat\/completions$/, "") : addressWith(path, address);
}

function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).hostname : "channel";
}
