import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { isGroup } from "../../config/kinds.ts";
import type { Settings } from "../../config/settings.ts";
import { shownSettings } from "../../config/explain/shown-settings.ts";
import {
  StorageError,
  type Actor,
  type AuditStorage,
  type ConfigurationPart,
  type ConfigurationParts,
  type WrittenValue,
} from "../../gateway/storage.ts";
import type { Log } from "../../telemetry/log.ts";
import { priceName } from "../../usage/price.ts";

/**
 * Records in the audit log what changes come by the configuration file: once, also where several replicas read the same file. While that
 * fails, it is tried again.
 */
export class ConfigurationRecord {
  private recorded: { readonly version: string; readonly parts: ConfigurationParts } | null = null;
  private recording: Promise<void> = Promise.resolve();
  private failures = 0;
  private disarm: () => void = () => {};
  private isStopped = false;

  constructor(
    private readonly options: {
      readonly audit: Pick<AuditStorage, "configured">;
      /** The configuration as the file says now. */
      readonly settings: () => ConfigurationSource;
      /** A keyed hash: the store must not help to guess a secret of the file. */
      readonly digest: (text: string) => string;
      readonly by: Actor;
      readonly after: (ms: number, then: () => void) => () => void;
      readonly log: Pick<Log, "info" | "warn">;
      readonly onBug: (error: unknown) => void;
    },
  ) {}

  /** To be called when the configuration has changed, and when the store may be used again. */
  record(): void {
    const { onBug } = this.options;
    this.disarm();
    this.recording = this.recording
      .then(() => this.recordNow())
      .catch((error: unknown) => (error instanceof StorageError ? this.failed(error) : onBug(error)));
  }

  stop(): void {
    this.isStopped = true;
    this.disarm();
  }

  private async recordNow(): Promise<void> {
    const { audit, settings, digest, by, log } = this.options;
    const now = settings();
    if (now.version === this.recorded?.version) return;
    const parts = await partsOf(now, digest);
    await audit.configured(parts, this.recorded?.parts ?? null, by);
    this.recorded = { version: now.version, parts };
    if (this.failures > 0) log.info("audit_back", {});
    this.failures = 0;
  }

  private failed(error: StorageError): void {
    const { after, log } = this.options;
    if (this.isStopped) return;
    if (this.failures === 0) {
      log.warn("audit_trouble", { detail: `a change of the configuration file is not in the audit log yet: ${error.message}` });
    }
    const pauseMs = Math.min(pauseMsMax, pauseMsMin * 2 ** Math.min(this.failures, doublingsMax));
    this.failures += 1;
    this.disarm();
    this.disarm = after(pauseMs, () => this.record());
  }
}

const pauseMsMin = 2_000;
const pauseMsMax = 5 * 60_000;
const doublingsMax = 10;

export type ConfigurationSource = Pick<Settings, "version" | "written" | "unresolved" | "channels" | "secrets">;

export async function partsOf(source: ConfigurationSource, digest: (text: string) => string): Promise<ConfigurationParts> {
  const short = (kind: string, name: string, text: string): string => digest(`${kind} ${name} ${text}`).slice(0, digestCharacters);
  const credentials = new Map<string, string>();
  // A secret may be in a file of its own, or in a variable that the file does not mention.
  for (const { name, credentials: own } of source.channels) {
    credentials.set(name, `${credentials.get(name) ?? ""}${own.map((credential) => source.secrets.get(credential) ?? "").join("\n")}\n`);
  }
  const parts = new Map<string, ConfigurationPart>();
  let seen = 0;
  for (const { section, name, written, resolved } of entriesOf(source)) {
    const secret = section === "channels" && isGroup(resolved) ? (credentials.get(String(resolved["name"])) ?? "") : "";
    // Entries may have the same name, as prices of one model from different days have.
    const before = parts.get(name);
    parts.set(name, {
      written: short("configuration", name, `${before?.written ?? ""} ${JSON.stringify(written)}`),
      resolved: short("configuration with values", name, `${before?.resolved ?? ""} ${JSON.stringify(resolved)} ${secret}`),
      values: before === undefined ? valuesOf(section, written, (path, text) => short("setting", `${name} ${path}`, text)) : null,
    });
    seen += 1;
    if (seen % sliceParts === 0) await yieldToEventLoop();
  }
  return parts;
}

interface PartSource {
  readonly section: string;
  readonly name: string;
  readonly written: unknown;
  readonly resolved: unknown;
}

/** They have their names as these are written: a variable in one may have another value for each replica. */
function* entriesOf({ unresolved, written: resolved }: ConfigurationSource): Generator<PartSource> {
  const values = isGroup(resolved) ? resolved : {};
  for (const [section, written] of Object.entries(isGroup(unresolved) ? unresolved : {})) {
    const nameOf = namedLists.get(section);
    const own = values[section];
    if (nameOf === undefined || !Array.isArray(written)) yield { section, name: section, written, resolved: own };
    else {
      for (const [at, entry] of written.entries()) {
        const value: unknown = Array.isArray(own) ? own[at] : undefined;
        if (isGroup(entry)) yield { section, name: `${section}.${nameOf(entry)}`, written: entry, resolved: value };
      }
    }
  }
}

function valuesOf(section: string, written: unknown, digest: (path: string, text: string) => string): ConfigurationPart["values"] {
  const settings = shownSettings(section, written).map(({ path, shown, value, isHidden }): [string, WrittenValue] => [
    path,
    isHidden ? [shown, digest(path, JSON.stringify(value))] : [shown],
  ]);
  const values = Object.fromEntries(settings);
  return JSON.stringify(values).length <= partCharactersMax ? values : null;
}

/** Of a part. Beyond it, the log says only that the part changed. */
const partCharactersMax = 8_192;

type NamedSetting = Readonly<Record<string, unknown>>;

const byName = ({ name }: NamedSetting): string => String(name);

const namedLists: ReadonlyMap<string, (entry: NamedSetting) => string> = new Map([
  ["channels", byName],
  ["groups", byName],
  ["keys", byName],
  ["token_issuers", byName],
  ["prices", ({ provider, model }) => priceName({ provider: typeof provider === "string" ? provider : null, model: String(model) })],
]);

const digestCharacters = 16;
const sliceParts = 500;
