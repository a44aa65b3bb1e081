import { describe, expect, test } from "bun:test";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { dependenciesPage, installScripts, licenceRemarks, manifestOf, packageLists, plainLicences } from "../../scripts/dependencies.ts";
import { foreignPackages, lockedFolders, lockOf, nameOf } from "../../scripts/lockfile.ts";
import { billOfMaterials } from "../../scripts/sbom.ts";

const root = join(import.meta.dir, "../..");
const kinds = ["dependencies", "devDependencies", "optionalDependencies"] as const;
const locked = lockedFolders.flatMap((folder) => foreignPackages(lockOf(folder)));

describe("every package that we ask for", () => {
  test("has its reason, in every folder, and no reason is left over", () => {
    for (const { folder, kinds: those, reasons } of packageLists) {
      const asked = Object.assign({}, ...those.map((kind) => manifestOf(folder)[kind])) as Record<string, string>;
      expect([folder, Object.keys(asked).toSorted()]).toEqual([folder, Object.keys(reasons).toSorted()]);
      for (const why of Object.values(reasons)) expect(why.length).toBeGreaterThan(10);
    }
    for (const folder of lockedFolders) {
      const listed = packageLists.filter((list) => list.folder === folder).flatMap((list) => list.kinds);
      expect([folder, kinds.filter((kind) => manifestOf(folder)[kind] !== undefined && !listed.includes(kind))]).toEqual([folder, []]);
    }
  });

  test("is asked for in one version, and locked in that version", () => {
    for (const folder of lockedFolders) {
      const lock = lockOf(folder);
      for (const kind of kinds) {
        const asked = manifestOf(folder)[kind];
        expect(lock.packages[""]?.[kind]).toEqual(asked);
        for (const [name, version] of Object.entries(asked ?? {})) {
          expect([name, version]).toEqual([name, expect.stringMatching(/^\d+\.\d+\.\d+$/)]);
          expect([name, lock.packages[`node_modules/${name}`]?.version]).toEqual([name, version]);
        }
      }
    }
  });
});

describe("every package that comes with them", () => {
  test("is locked with a hash that is not a weak one", () => {
    expect(locked.length).toBeGreaterThan(100);
    expect(locked.filter(([, { integrity }]) => !integrity?.startsWith("sha512-")).map(([path]) => path)).toEqual([]);
  });

  test("comes from the registry, whichever npm is set to use", () => {
    const elsewhere = locked.filter(([, { resolved }]) => resolved !== undefined && !resolved.startsWith("https://registry.npmjs.org/"));
    expect(elsewhere.map(([path]) => path)).toEqual([]);
  });

  test("runs no script when it is installed: those that have one are known, denied, and not needed", () => {
    const scripted = locked.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path, entry]) => nameOf(path, entry));
    expect([...new Set(scripted)].toSorted()).toEqual(Object.keys(installScripts).toSorted());
    // What older versions of npm obey, and newer ones.
    expect(readFileSync(join(root, ".npmrc"), "utf8")).toMatch(/^ignore-scripts=true$/m);
    expect(manifestOf(".").allowScripts).toEqual(Object.fromEntries(Object.keys(installScripts).map((name) => [name, false])));
    for (const file of [
      "bin/test-packages",
      "bin/install-agents",
      "bin/test-langchain",
      "bin/test-types",
      "test/support/servers/obtain.ts",
    ]) {
      expect(readFileSync(join(root, file), "utf8")).toContain("--ignore-scripts");
    }
  });

  test("has a licence that we can keep, and a word on each that is not plain", () => {
    const odd = locked.filter(([, { license = "" }]) => !plainLicences.has(license)).map(([path, entry]) => nameOf(path, entry));
    expect([...new Set(odd)].toSorted()).toEqual(Object.keys(licenceRemarks).toSorted());
  });
});

test("a clone and what npm install adds to it take at most 350 MB on the disk", () => {
  const onDisk = (path: string): number => {
    const stat = lstatSync(path);
    const below = stat.isDirectory() ? readdirSync(path).map((name) => onDisk(join(path, name))) : [];
    return below.reduce((sum, bytes) => sum + bytes, stat.blocks * 512);
  };
  // Only what git knows: what is installed for tests and builds lies beside it, and is not of a newcomer.
  const cloned = Bun.spawnSync(["git", "ls-files", "-z"], { cwd: root })
    .stdout.toString()
    .split("\0")
    .filter((path) => path !== "" && existsSync(join(root, path)));
  // npm brings what is for this platform, and somebody may have added what is not in the lock.
  const brought = Object.keys(lockOf(".").packages).filter((path) => path !== "" && existsSync(join(root, path)));
  const bytes = [...cloned, ...brought].reduce((sum, path) => sum + onDisk(join(root, path)), 0);
  expect(bytes).toBeGreaterThan(200e6);
  expect(bytes).toBeLessThan(350e6);
});

test("the runtime is found in the package of this platform, also where another one lies beside it", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
  for (const one of ["bin", "node_modules/@oven/bun-another/bin", "node_modules/@oven/bun-this-machine/bin"])
    mkdirSync(join(folder, one), { recursive: true });
  cpSync(join(root, "bin/bun"), join(folder, "bin/bun"));
  // As where the packages were installed on another machine.
  writeFileSync(join(folder, "node_modules/@oven/bun-another/bin/bun"), "of another platform", { mode: 0o755 });
  symlinkSync(process.execPath, join(folder, "node_modules/@oven/bun-this-machine/bin/bun"));
  const { stdout, exitCode } = Bun.spawnSync(["sh", join(folder, "bin/bun"), "--version"], { stderr: "inherit" });
  rmSync(folder, { recursive: true });
  expect([exitCode, stdout.toString().trim()]).toEqual([0, Bun.version]);
  const { optionalDependencies = {} } = manifestOf(".");
  for (const platform of ["linux-x64", "linux-aarch64", "linux-x64-musl", "linux-aarch64-musl", "darwin-aarch64", "darwin-x64"]) {
    expect([platform, optionalDependencies[`@oven/bun-${platform}`]]).toEqual([platform, Bun.version]);
    expect(Object.keys(lockOf(".").packages)).toContain(`node_modules/@oven/bun-${platform}`);
  }
});

test("docs/dependencies.md says what the locks say (sh bin/bun scripts/docs.ts writes it)", () => {
  expect(readFileSync(join(root, "docs/dependencies.md"), "utf8")).toBe(dependenciesPage());
});

describe("the bill of materials", () => {
  const bill = billOfMaterials();

  test("is what npm run sbom prints, the same each time", () => {
    const { stdout, exitCode } = Bun.spawnSync(["sh", join(root, "bin/bun"), "scripts/sbom.ts"], { cwd: root, stderr: "inherit" });
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout.toString())).toEqual(JSON.parse(JSON.stringify(bill)));
  });

  test("has the form of CycloneDX 1.6", () => {
    expect(bill).toMatchObject({ bomFormat: "CycloneDX", specVersion: "1.6", version: 1 });
    expect(bill.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
    expect(bill.metadata.component).toMatchObject({
      type: "application",
      name: "sluice",
      purl: expect.stringMatching(/^pkg:npm\/sluice@/),
    });
    for (const one of bill.components) {
      expect(one).toMatchObject({
        type: "library",
        name: expect.stringMatching(/^[^@/]+$/),
        scope: expect.stringMatching(/^(required|optional|excluded)$/),
      });
      expect(one.purl).toMatch(/^pkg:npm\/(?:%40[a-z0-9._-]+\/)?[a-z0-9._-]+@\d/i);
      for (const { alg, content } of one.hashes ?? [])
        expect([alg, content]).toEqual(["SHA-512", expect.stringMatching(/^[0-9a-f]{128}$/)]);
      expect(one.licenses).toHaveLength(1);
    }
  });

  test("has every package of the lock once, and no edge that leads nowhere", () => {
    const refs = bill.components.map((one) => one["bom-ref"]);
    expect(new Set(refs).size).toBe(refs.length);
    expect(new Set(refs)).toEqual(
      new Set(foreignPackages(lockOf(".")).map(([path, entry]) => `pkg:npm/${nameOf(path, entry).replace("@", "%40")}@${entry.version}`)),
    );
    const own = bill.metadata.component["bom-ref"];
    const known = new Set([own, ...refs]);
    expect(new Set(bill.dependencies.map(({ ref }) => ref))).toEqual(known);
    expect(bill.dependencies.flatMap(({ dependsOn }) => dependsOn).filter((ref) => !known.has(ref))).toEqual([]);
    const direct = bill.dependencies.find(({ ref }) => ref === own)?.dependsOn ?? [];
    for (const { reasons } of packageLists.filter(({ folder }) => folder === ".")) {
      for (const name of Object.keys(reasons))
        expect(direct.some((ref) => ref.startsWith(`pkg:npm/${name.replace("@", "%40")}@`))).toBe(true);
    }
  });

  test("leaves nothing out that somebody asks for: whatever is in it is reached", () => {
    const edges = new Map(bill.dependencies.map(({ ref, dependsOn }) => [ref, dependsOn]));
    const reached = new Set<string>();
    const visit = (ref: string): void => {
      if (reached.has(ref)) return;
      reached.add(ref);
      for (const next of edges.get(ref) ?? []) visit(next);
    };
    visit(bill.metadata.component["bom-ref"]);
    expect(bill.components.map((one) => one["bom-ref"]).filter((ref) => !reached.has(ref))).toEqual([]);
  });
});
