import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { root } from "../../../scripts/source-tree.ts";
import { renderTemplates } from "./template.ts";

export const chartFolder = join(root, "deploy/helm/sluice");

export type Values = Readonly<Record<string, unknown>>;

/** An object of Kubernetes, as far as tests look into it. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly [field: string]: unknown;
}

export type Rendered = { readonly objects: readonly KubernetesObject[]; readonly notes: string } | { readonly error: string };

export const chart = parse(readFileSync(join(chartFolder, "Chart.yaml"), "utf8")) as Readonly<Record<string, string>>;
export const defaultValues = parse(readFileSync(join(chartFolder, "values.yaml"), "utf8")) as Values;
export const valuesSchema = JSON.parse(readFileSync(join(chartFolder, "values.schema.json"), "utf8")) as Record<string, unknown>;
export const templates: Readonly<Record<string, string>> = Object.fromEntries(
  readdirSync(join(chartFolder, "templates")).map((name) => [name, readFileSync(join(chartFolder, "templates", name), "utf8")]),
);

/** Values over the chart's own, as Helm merges them: maps by key, anything else as a whole, and null removes a value. */
export function withDefaults(own: Values, defaults: Values = defaultValues): Values {
  const merged: Record<string, unknown> = { ...defaults };
  for (const [name, value] of Object.entries(own)) {
    const before = merged[name];
    if (value === null) delete merged[name];
    else merged[name] = isMap(value) && isMap(before) ? withDefaults(value, before) : value;
  }
  return merged;
}

function isMap(value: unknown): value is Values {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Renders the chart with these values over its own. */
export function render(own: Values, release = "prod"): Rendered {
  const { name, version, appVersion } = chart;
  const data = {
    Values: withDefaults(own),
    Chart: { Name: name, Version: version, AppVersion: appVersion },
    Release: { Name: release, Namespace: "ai", Service: "Helm" },
  };
  try {
    const { "NOTES.txt": notes = "", ...manifests } = renderTemplates(templates, data);
    return { notes, objects: Object.values(manifests).flatMap(objectsIn) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function objectsIn(text: string): readonly KubernetesObject[] {
  return parseAllDocuments(text, { uniqueKeys: true }).flatMap((document) => {
    if (document.errors.length > 0) throw new Error(`${document.errors.join("\n")}\n${text}`);
    const value = document.toJS() as KubernetesObject | null;
    return value === null ? [] : [value];
  });
}
