import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { foreignPackages, lockOf, nameOf, resolvedIn, type LockedPackage, type Lockfile } from "./lockfile.ts";

/**
 * Prints the bill of materials of this version in the format of CycloneDX 1.6: every package of the lock with its hash, its licence and
 * what asks for it. The same lock gives the same bytes.
 */
export function billOfMaterials(lock: Lockfile = lockOf(".")): Bill {
  const { name, version, license } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as Own;
  const all = foreignPackages(lock);
  const refs = new Map(all.map(([path, entry]) => [path, refOf(path, entry)]));
  const dependsOn = (path: string): readonly string[] =>
    [...new Set(wantedBy(lock, path).flatMap((one) => refs.get(one) ?? []))].toSorted();
  const components = new Map(all.map(([path, entry]) => [refOf(path, entry), componentOf(path, entry)]));
  const own = `pkg:npm/${name}@${version}`;
  const edges = new Map<string, readonly string[]>();
  edges.set(own, dependsOn(""));
  for (const [path] of all)
    edges.set(refs.get(path)!, [...new Set([...(edges.get(refs.get(path)!) ?? []), ...dependsOn(path)])].toSorted());
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(JSON.stringify([name, version, lock]))}`,
    version: 1,
    metadata: {
      component: { type: "application", "bom-ref": own, name, version, licenses: [{ license: { id: license } }], purl: own },
    },
    components: [...components.values()].toSorted((one, other) => (one["bom-ref"] < other["bom-ref"] ? -1 : 1)),
    dependencies: [...edges].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([ref, on]) => ({ ref, dependsOn: on })),
  };
}

export interface Bill {
  readonly bomFormat: "CycloneDX";
  readonly specVersion: string;
  readonly serialNumber: string;
  readonly version: number;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

export interface Component {
  readonly type: "application" | "library";
  readonly "bom-ref": string;
  readonly group?: string;
  readonly name: string;
  readonly version: string;
  /** `excluded`: for development only, and in nothing that is deployed. */
  readonly scope?: "required" | "optional" | "excluded";
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses: readonly ({ readonly license: { readonly id: string } } | { readonly expression: string })[];
  readonly purl: string;
}

interface Own {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

function wantedBy(lock: Lockfile, path: string): readonly string[] {
  const { dependencies, devDependencies, optionalDependencies, peerDependencies } = lock.packages[path] ?? {};
  const names = Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies, ...peerDependencies });
  return names.flatMap((name) => resolvedIn(lock, path, name) ?? []);
}

function componentOf(path: string, entry: LockedPackage): Component {
  const full = nameOf(path, entry);
  const slash = full.indexOf("/");
  const { integrity, license, version } = entry;
  if (integrity === undefined || license === undefined || version === undefined) throw new Error(`The lock says too little of ${full}.`);
  return {
    type: "library",
    "bom-ref": refOf(path, entry),
    ...(slash < 0 ? undefined : { group: full.slice(0, slash) }),
    name: full.slice(slash + 1),
    version,
    scope: entry.dev === true ? "excluded" : entry.optional === true || entry.devOptional === true ? "optional" : "required",
    hashes: integrity.split(" ").map(hashOf),
    licenses: [license.startsWith("(") ? { expression: license } : { license: { id: license } }],
    purl: refOf(path, entry),
  };
}

function refOf(path: string, entry: LockedPackage): string {
  return `pkg:npm/${nameOf(path, entry).replace("@", "%40")}@${entry.version ?? ""}`;
}

/** From `sha512-` and base64. */
function hashOf(integrity: string): { readonly alg: string; readonly content: string } {
  const [algorithm = "", digest = ""] = integrity.split("-", 2);
  return { alg: algorithm.toUpperCase().replace("SHA", "SHA-"), content: Buffer.from(digest, "base64").toString("hex") };
}

/** A UUID that says the same of the same text. */
function uuidOf(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

if (import.meta.main) process.stdout.write(`${JSON.stringify(billOfMaterials(), null, 2)}\n`);
