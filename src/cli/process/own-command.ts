import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { shellQuoted } from "./welcome.ts";

/** How this program was started: as a program, by npm in a clone, or by npx. */
export type Launch =
  | { readonly by: "npm" }
  | { readonly by: "npx"; readonly package: string }
  | { readonly by: "name"; readonly name: string };

/**
 * Read from the variables that npm sets. `executable` is the file that was started, where the gateway is one. `npxHome` is the folder
 * in which npx has installed the package.
 */
export function launchOf(
  env: Readonly<Record<string, string | undefined>>,
  packageName: string,
  executable: string | null,
  npxHome: string = ownHome,
): Launch {
  if (executable !== null) return { by: "name", name: executable };
  const event = env["npm_lifecycle_event"];
  if (event === "npx") return { by: "npx", package: npxPackage(npxHome) ?? packageName };
  const isOwnScript = (event === "start" || event === "sluice") && env["npm_package_name"] === packageName;
  return isOwnScript ? { by: "npm" } : { by: "name", name: "sluice" };
}

/**
 * What was given to npx, such as the path of a package file; null if npx has found the package in a project. Our own name would be looked
 * up in the public registry, where it may be somebody else's.
 */
function npxPackage(home: string): string | null {
  try {
    const { _npx } = JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as { readonly _npx?: { readonly packages?: unknown } };
    const given: unknown = Array.isArray(_npx?.packages) && _npx.packages.length === 1 ? _npx.packages[0] : null;
    if (typeof given !== "string") return null;
    // After `npx --package FILE sluice`. Without --package, npx would run the file at that path itself.
    return given.startsWith("/") ? `file:${given}` : given;
  } catch {
    return null;
  }
}

/** The folder whose `node_modules` we are in, if we are in one. */
const ownHome = join(import.meta.dir, "../../../../..");

/** What comes before a command, such as `keys list`, after this launch. */
export function commandName(launch: Launch): string {
  switch (launch.by) {
    case "npm":
      return "npm run --silent sluice --";
    case "npx":
      return `npx ${shellQuoted(launch.package)}`;
    case "name":
      return launch.name;
  }
}

/** Writes the commands in a text, such as `sluice keys list`, as they have to be typed after this launch. */
export function asTyped(text: string, launch: Launch): string {
  return text.replaceAll(commands, (_, command: string, option: string | undefined) => {
    if (launch.by === "npm" && command === "start") return option === undefined ? "npm start" : `npm start --${option}`;
    return `${commandName(launch)} ${command}${option ?? ""}`;
  });
}

/**
 * The launch as clients and strangers may know it: only names that say nothing of this machine or of where its packages come from. The
 * address of a package may hold a password or a signature, so that nothing of it is told but the name of a file.
 */
export function toldLaunch(launch: Launch): Launch {
  switch (launch.by) {
    case "npm":
      return launch;
    case "npx": {
      const { package: given } = launch;
      if (packageFile.test(given)) return { by: "npx", package: `./${basename(given)}` };
      return ofRegistry.test(given) ? launch : { by: "name", name: "sluice" };
    }
    case "name":
      return { by: "name", name: basename(launch.name) };
  }
}

/** A file of this machine, as npm writes it. */
const packageFile = /^(file:|\.{0,2}\/)[^?#]*\.(tgz|tar\.gz)$/;
/** A name in the registry, with or without a version. */
const ofRegistry = /^(@[\w.-]+\/)?[\w.-]+(@[\w.^~-]+)?$/;

/** Not those that are written as they are typed already: a running gateway may have done that. */
const commands =
  /(?<!npx |[\w./:-])sluice (start|init|doctor|check|health|models|keys|groups|issuers|usage|requests|explain|tail|audit|accounts|prices|channels|import|config|backup|restore|master-key|open|lab|completion|help|\[options\]|--help|--url)( -)?/g;
