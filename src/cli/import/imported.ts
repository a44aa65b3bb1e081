import { presets } from "../../dialects/presets.ts";

/** A configuration that was made of another gateway's. */
export interface ImportedConfiguration {
  /** As it stands in the file, without any secret. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The variables that the file refers to, and what belongs into each. */
  readonly variables: readonly ImportedVariable[];
  /** What could not be carried over, and what to do about it. */
  readonly notes: readonly string[];
}

export interface ImportedVariable {
  readonly name: string;
  readonly meaning: string;
  /** A value with which the file can be checked before the variable is set. */
  readonly sample: string;
}

const sampleSecret = "0123456789abcdef";

/** One way to serve one model: what the other gateways list. Those that differ in nothing but the model become one channel. */
export interface ImportedDeployment {
  /** As clients name it; null: any model, under the same name. */
  readonly model: string | null;
  readonly upstreamModel: string;
  readonly target: ImportedTarget;
  readonly tier: number;
  readonly weight: number;
}

/** The settings of a channel but for its name, models, tier and weight. */
export interface ImportedTarget {
  readonly name: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

/** More than any configuration has; it bounds the work for one that was made to be large. */
const deploymentsMax = 10_000;

/** Collects what is read of another gateway's configuration. */
export class Importer {
  private readonly deployments: ImportedDeployment[] = [];
  private readonly variables = new Map<string, Omit<ImportedVariable, "name"> & { readonly value: string | null }>();
  private readonly notes = new Set<string>();

  add(deployment: ImportedDeployment): void {
    if (this.deployments.length < deploymentsMax) this.deployments.push(deployment);
    else this.note(`only the first ${deploymentsMax} deployments are carried over`);
  }

  get found(): readonly ImportedDeployment[] {
    return this.deployments;
  }

  note(text: string): void {
    this.notes.add(text);
  }

  /** A reference to a variable that the other file uses as well. */
  variable(name: string, sample = sampleSecret): string {
    return this.referTo(name, null, "the same variable as before", sample);
  }

  /** A reference to a variable for a secret that stands in the other file. What is secret stays out of this one. */
  secret(value: string, name: string, meaning: string): string {
    return this.referTo(name, value, meaning);
  }

  /** Each secret has a variable of its own; a variable of the other file keeps its name. */
  private referTo(wanted: string, value: string | null, meaning: string, sample = sampleSecret): string {
    const base = wanted
      .toUpperCase()
      .replaceAll(/[^A-Z0-9_]+/g, "_")
      .replace(/^(?=\d)/, "_");
    let name = base;
    for (let number = 2; this.isOther(name, value); number++) name = `${base}_${number}`;
    this.variables.set(name, { meaning, sample, value });
    return `\${${name}}`;
  }

  private isOther(name: string, value: string | null): boolean {
    const known = this.variables.get(name);
    return known !== undefined && known.value !== value;
  }

  /** The preset of a provider, or null with a note if there is none. */
  preset(name: string | undefined, where: string, called: string): string | null {
    if (name !== undefined && presets.some((preset) => preset.name === name)) return name;
    this.note(
      `${where}: there is no preset for the provider "${called}"; give the channel a base_url, and a dialect if it does not speak the OpenAI API`,
    );
    return null;
  }

  finish(settings: Readonly<Record<string, unknown>>): ImportedConfiguration {
    return {
      settings: { ...settings, channels: channelsOf(this.deployments) },
      variables: [...this.variables].map(([name, { meaning, sample }]) => ({ name, meaning, sample })),
      notes: [...this.notes],
    };
  }
}

/** Deployments with the same settings become one channel, as long as no model occurs in it twice. */
function channelsOf(deployments: readonly ImportedDeployment[]): readonly Readonly<Record<string, unknown>>[] {
  const groups = new Map<string, { readonly first: ImportedDeployment; readonly models: Map<string | null, string> }[]>();
  for (const deployment of deployments) {
    const { target, tier, weight, model, upstreamModel } = deployment;
    const key = JSON.stringify([target.settings, tier, weight, model === null]);
    const alike = groups.get(key) ?? [];
    groups.set(key, alike);
    const same = alike.find(({ models }) => models.get(model) === upstreamModel);
    if (same !== undefined) continue;
    const open = alike.find(({ models }) => !models.has(model));
    if (open === undefined) alike.push({ first: deployment, models: new Map([[model, upstreamModel]]) });
    else open.models.set(model, upstreamModel);
  }
  const names = new Set<string>();
  return [...groups.values()].flat().map(({ first: { target, tier, weight }, models }) => ({
    name: freeName(target.name, names),
    ...target.settings,
    models: modelsOf(models),
    ...(tier === 1 ? undefined : { tier }),
    ...(weight === 1 ? undefined : { weight }),
  }));
}

function modelsOf(models: ReadonlyMap<string | null, string>): unknown {
  if (models.has(null)) return "*";
  const entries = [...models] as readonly (readonly [string, string])[];
  return entries.every(([client, upstream]) => client === upstream) ? entries.map(([client]) => client) : Object.fromEntries(entries);
}

function freeName(wanted: string, taken: Set<string>): string {
  const base =
    wanted
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]+/g, "-")
      .replaceAll(/^[-._]+|[-._]+$/g, "")
      .slice(0, 48) || "channel";
  let name = base;
  for (let number = 2; taken.has(name); number++) name = `${base}-${number}`;
  taken.add(name);
  return name;
}

export type ForeignFields = Readonly<Record<string, unknown>>;

export function fieldsOf(value: unknown): ForeignFields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as ForeignFields) : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

export function textOf(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value.trim() !== "" ? value.trim() : null;
}

export function numberOf(value: unknown): number | null {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}

/** Notes every field that is set and was not read. */
export function noteUnread(importer: Importer, where: string, fields: ForeignFields, read: ReadonlySet<string>): void {
  const unread = Object.keys(fields).filter((name) => !read.has(name) && fields[name] !== null && fields[name] !== undefined);
  if (unread.length > 0) importer.note(`${where}: not carried over: ${unread.slice(0, 50).join(", ")}`);
}

/** A duration of the configuration, from seconds. */
export function seconds(value: number): string {
  return `${Math.max(1, Math.round(value * 1000))}ms`;
}

/** The address of an upstream to which the other gateway adds this path and that of a call, unless they stand there already. */
export function addressWith(path: string, address: string): string {
  const base = address.replace(/\/+$/, "").replace(/\/(?:messages|api\/(?:chat|generate))$/, "");
  return base.endsWith(path) ? base : base + path;
}

/** Whether an address is on the host of the preset. */
export function isOwnAddress(preset: string, address: string): boolean {
  const usual = presets.find(({ name }) => name === preset)?.baseUrl;
  return usual !== undefined && URL.parse(usual)?.host === URL.parse(address)?.host;
}
