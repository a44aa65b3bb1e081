import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { isGroup } from "../../config/kinds.ts";
import type { Settings } from "../../config/settings.ts";
import { StorageError, type Actor, type AuditStorage } from "../../gateway/storage.ts";
import { priceName } from "../../usage/price.ts";

/**
 * Records in the audit log what changes come by the configuration file, by the names of what they are about: once, also where several
 * replicas read the same file. What could not be recorded because the store was away is recorded with the next change, or when it is back.
 */
export class ConfigurationRecord {
  private recorded: { readonly version: string; readonly parts: ReadonlyMap<string, string> } | null = null;
  private recording: Promise<void> = Promise.resolve();

  constructor(
    private readonly options: {
      readonly audit: Pick<AuditStorage, "configured">;
      /** The configuration as the file says now. */
      readonly settings: () => ConfigurationParts;
      /** A keyed hash: the store must not help to guess a secret of the file. */
      readonly digest: (text: string) => string;
      readonly by: Actor;
      readonly onBug: (error: unknown) => void;
    },
  ) {}

  /** To be called when the configuration has changed, and when the store may be used again. */
  record(): void {
    const { onBug } = this.options;
    this.recording = this.recording
      .then(() => this.recordNow())
      .catch((error: unknown) => {
        if (!(error instanceof StorageError)) onBug(error);
      });
  }

  private async recordNow(): Promise<void> {
    const { audit, settings, digest, by } = this.options;
    const now = settings();
    if (now.version === this.recorded?.version) return;
    const parts = await partsOf(now, digest);
    await audit.configured(parts, this.recorded?.parts ?? null, by);
    this.recorded = { version: now.version, parts };
  }
}

export type ConfigurationParts = Pick<Settings, "version" | "written" | "channels" | "secrets">;

/** A digest of each section of the file, and of each entry of the lists that have names, such as `channels.main`. */
export async function partsOf(
  { written, channels, secrets }: ConfigurationParts,
  digest: (text: string) => string,
): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  const add = (name: string, text: string): void => void texts.set(name, `${texts.get(name) ?? ""}${text}\n`);
  for (const [section, content] of Object.entries(isGroup(written) ? written : {})) {
    const nameOf = namedLists.get(section);
    if (nameOf === undefined || !Array.isArray(content)) add(section, JSON.stringify(content));
    else for (const entry of content.filter(isGroup)) add(`${section}.${nameOf(entry)}`, JSON.stringify(entry));
  }
  // A secret may be in a file of its own, or in a variable that the file does not mention.
  for (const { name, credentials } of channels) {
    for (const credential of credentials) add(`channels.${name}`, secrets.get(credential) ?? "");
  }
  const parts = new Map<string, string>();
  for (const [name, text] of texts) {
    parts.set(name, digest(`configuration ${name} ${text}`).slice(0, digestCharacters));
    if (parts.size % sliceParts === 0) await yieldToEventLoop();
  }
  return parts;
}

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
