import { oneApiProviders, resourceIn } from "../../dialects/foreign-names.ts";
import { fieldsOf, Importer, isOwnAddress, listOf, numberOf, textOf, type ForeignFields, type ImportedConfiguration } from "./imported.ts";

/** Reads a list of channels of One API or one of its descendants, as `GET /api/channel/` returns it. */
export function importOneApi(document: unknown): ImportedConfiguration {
  const importer = new Importer();
  const rows = rowsOf(document).map(fieldsOf);
  const priorities = [...new Set(rows.filter(isEnabled).map(priorityOf))].toSorted((a, b) => b - a);
  rows.forEach((row, at) => {
    const where = `channel ${textOf(row["name"]) ?? textOf(row["id"]) ?? at}`;
    if (isEnabled(row)) readChannel(importer, row, where, priorities.indexOf(priorityOf(row)) + 1);
    else importer.note(`${where}: it is disabled, and left out`);
  });
  importer.note("tokens, users and quotas are not in this list: create keys with `sluice keys create`, with limits and budgets");
  return importer.finish({});
}

/** The list itself, or inside the envelope of the API, which has had several forms. */
function rowsOf(document: unknown): readonly unknown[] {
  if (Array.isArray(document)) return document as readonly unknown[];
  const { data } = fieldsOf(document);
  return Array.isArray(data) ? (data as readonly unknown[]) : listOf(fieldsOf(data)["items"]);
}

function isEnabled(row: ForeignFields): boolean {
  return (numberOf(row["status"]) ?? 1) === 1;
}

/** The highest is tried first. */
function priorityOf(row: ForeignFields): number {
  return numberOf(row["priority"]) ?? 0;
}

function readChannel(importer: Importer, row: ForeignFields, where: string, tier: number): void {
  const type = numberOf(row["type"]) ?? 0;
  const known = oneApiProviders.get(type);
  const address = textOf(row["base_url"]);
  if (known === undefined && address === null) {
    return importer.note(`${where}: channels of type ${type} are not carried over; if it speaks the OpenAI API, add it with its base_url`);
  }
  const preset = known !== undefined && "preset" in known ? importer.preset(known.preset, where, known.preset) : null;
  const own = known !== undefined && "baseUrl" in known ? known.baseUrl : null;
  const resource = resourceIn(address);
  const isUsual = preset !== null && (address === null || isOwnAddress(preset, address));
  const baseUrl = resource === null && !isUsual && address !== null ? withVersion(address) : own;
  const name = textOf(row["name"]) ?? preset ?? `channel-${textOf(row["id"]) ?? type}`;
  const tags = (textOf(row["group"]) ?? "").split(",").map((tag) => tag.trim());
  const kept = tags.filter((tag) => tag !== "" && tag !== "default" && /^[\w.-]{1,64}$/.test(tag));
  const settings = {
    ...(preset === null ? undefined : { provider: preset }),
    ...(resource === null ? undefined : { resource }),
    ...(baseUrl === null || resource !== null ? undefined : { base_url: baseUrl }),
    api_key: importer.secret(textOf(row["key"]) ?? name, `${name}_API_KEY`, `the key of the channel "${name}"`),
    ...(kept.length === 0 ? undefined : { tags: kept }),
  };
  const weight = numberOf(row["weight"]);
  const mapping = mappingOf(importer, row, where);
  const models = (textOf(row["models"]) ?? "").split(",").map((model) => model.trim());
  const target = { name, settings };
  for (const model of new Set(models.filter((each) => each !== ""))) {
    importer.add({ model, upstreamModel: mapping.get(model) ?? model, target, tier, weight: weight !== null && weight > 0 ? weight : 1 });
  }
}

function mappingOf(importer: Importer, row: ForeignFields, where: string): ReadonlyMap<string, string> {
  const text = textOf(row["model_mapping"]);
  if (text === null) return new Map();
  try {
    const entries = Object.entries(fieldsOf(JSON.parse(text))).flatMap(([from, to]) =>
      typeof to === "string" ? [[from, to] as const] : [],
    );
    return new Map(entries);
  } catch {
    importer.note(`${where}: its model_mapping is not JSON, and is left out`);
    return new Map();
  }
}

/** The other gateway adds `/v1` by itself. */
function withVersion(address: string): string {
  const base = address.replace(/\/+$/, "");
  return /\/v\d+(?:beta)?$/.test(base) || URL.parse(base)?.pathname !== "/" ? base : `${base}/v1`;
}
