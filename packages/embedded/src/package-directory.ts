import { createRequire } from "node:module";
import { dirname } from "node:path";

/** The folder of a package, or `null` if it is not installed. */
export function packageDirectory(name: string): string | null {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
  } catch {
    return null;
  }
}
