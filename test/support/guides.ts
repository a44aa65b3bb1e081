import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fencedBlocks, type FencedBlock } from "../../scripts/site/fences.ts";

const root = resolve(import.meta.dir, "../..");

/** What stands in the place of the address, the key and the model that the guides show. */
export interface Shown {
  readonly url: string;
  readonly adminUrl?: string;
  readonly key: string;
  readonly model: string;
}

export function pageText(page: string): string {
  return readFileSync(join(root, page), "utf8");
}

export function blocksOf(page: string): readonly FencedBlock[] {
  return fencedBlocks(pageText(page));
}

export function withShown(text: string, { url, adminUrl, key, model }: Shown): string {
  return text
    .replaceAll("http://127.0.0.1:4400", url)
    .replaceAll("http://127.0.0.1:4401", adminUrl ?? "http://127.0.0.1:4401")
    .replaceAll("sk-your-key", key)
    .replaceAll(/your-model|embedded\/stories-15m/g, model);
}

/** What docs/guides/clients.md tells the users of a program to set. */
export interface ClientSettings {
  readonly env: Readonly<Record<string, string>>;
  /** The files to write, by their paths; `~` is the home. */
  readonly files: Readonly<Record<string, string>>;
}

export function clientSettings(client: string, shown: Shown): ClientSettings {
  const blocks = blocksOf("docs/guides/clients.md").filter(({ heading }) => heading === client);
  if (blocks.length === 0) throw new Error(`docs/guides/clients.md has no section ${client}`);
  const exported = blocks
    .filter(({ language }) => language === "sh")
    .flatMap(({ text }) => [...withShown(text, shown).matchAll(/^export (\w+)=(\S+)/gm)].map(([, name = "", value = ""]) => [name, value]));
  const files = blocks.flatMap(({ title, text }) => (title === null ? [] : [[title, withShown(text, shown)] as const]));
  return { env: Object.fromEntries(exported) as Record<string, string>, files: Object.fromEntries(files) };
}
