import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import manifest from "../../package.json" with { type: "json" };
import { lockOf } from "../lockfile.ts";
import { bundleFolder, bundleInto, root, run } from "./bundle.ts";

/**
 * Writes the npm package, with the compiled gateway in it, into a folder, and returns its path: `npm run package` writes it to dist/.
 * It is made of a copy of the checkout, which never has a bundle itself. `npm pack` alone makes one that starts from its source.
 */
export async function packInto(folder: string): Promise<string> {
  const copy = mkdtempSync(join(tmpdir(), "sluice-package-"));
  try {
    const named = manifest.files.filter((path) => !path.startsWith("!") && path !== bundleFolder);
    for (const path of ["package.json", "README.md", "LICENSE", ".gitignore", ...named]) {
      cpSync(join(root, path), join(copy, path), { recursive: true });
    }
    await bundleInto(join(copy, bundleFolder), { place: join(root, bundleFolder) });
    mkdirSync(folder, { recursive: true });
    const name = run(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder], copy).trim().split("\n").at(-1) ?? "";
    return join(folder, name);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/**
 * Installs a package as npm would put it into an empty folder, without a registry: the packages that it asks for are those of this
 * clone. Returns the program.
 */
export function installInto(home: string, file: string, { withOptional }: { readonly withOptional: boolean }): string {
  const packages = join(home, "node_modules");
  const own = join(packages, manifest.name);
  mkdirSync(join(packages, ".bin"), { recursive: true });
  mkdirSync(own);
  run(["tar", "-xzf", file, "-C", own, "--strip-components=1"], home);
  const program = join(packages, ".bin/sluice");
  symlinkSync(`../${manifest.name}/${manifest.bin.sluice}`, program);
  for (const [path, { dev = false, optional = false }] of Object.entries(lockOf(".").packages)) {
    const isRuntime = path.startsWith("node_modules/@oven/");
    const nested = path.lastIndexOf("node_modules/") > 0;
    if (path === "" || dev || nested || (optional && !withOptional && !isRuntime) || !existsSync(join(root, path))) continue;
    mkdirSync(dirname(join(home, path)), { recursive: true });
    symlinkSync(join(root, path), join(home, path));
  }
  return program;
}

if (import.meta.main) {
  const file = await packInto(join(root, "dist"));
  console.log(`${file}  ${(statSync(file).size / 1e6).toFixed(0)} MB`);
}
