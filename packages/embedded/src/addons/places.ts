import { join } from "node:path";

/** Where the add-ons of a data directory lie. */
export function modelsFolder(dataDir: string): string {
  return join(dataDir, "models");
}

/** Where one lies once it is complete: it is put here in one piece. */
export function addonFolder(dataDir: string, name: string): string {
  return join(modelsFolder(dataDir), name);
}

/** Where one is put together. On the same file system, so that it can be moved; what is here may be thrown away at any time. */
export function workshop(dataDir: string, name: string): string {
  return join(modelsFolder(dataDir), ".adding", name);
}

export const manifestName = "manifest.json";
