import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runtimeSettings } from "../../src/cli/process/executable.ts";

/** The runtime reads some settings only from the environment in which it starts, and a gateway is started in three ways. */
const root = join(import.meta.dir, "..", "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

test("the launcher sets what the executable sets, unless the operator has set it", () => {
  const launcher = read("bin/bun");
  const set = [...launcher.matchAll(/"\$\{(\w+):=([^}]*)\}"/g)].map(([, name, value]) => [name, value]);
  expect(Object.fromEntries(set)).toEqual(runtimeSettings);
  const exported = [...launcher.matchAll(/^export (.+)$/gm)].flatMap(([, names = ""]) => names.split(" "));
  expect(exported.toSorted()).toEqual(Object.keys(runtimeSettings).toSorted());
});

test("the image, whose entry point is the runtime and not the launcher, sets the same", () => {
  const environment = /^ENV ((?:.*\\\n)*.*)$/m.exec(read("deploy/Dockerfile"))?.[1] ?? "";
  const set = Object.fromEntries(environment.split(/\s*\\\n\s*/).map((assignment) => assignment.split("=", 2)));
  expect(set).toMatchObject(runtimeSettings);
});

test("a process that is started by the launcher has them, and keeps what the operator has set", async () => {
  const report = "console.log(JSON.stringify(process.env))";
  const run = async (environment: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> => {
    const inherited = Object.entries(process.env).filter(([name]) => !(name in runtimeSettings));
    const child = Bun.spawn(["sh", join(root, "bin", "bun"), "-e", report], { env: { ...Object.fromEntries(inherited), ...environment } });
    return JSON.parse(await new Response(child.stdout).text()) as Record<string, string>;
  };
  expect(await run({})).toMatchObject(runtimeSettings);
  const asked = { UV_THREADPOOL_SIZE: "8" };
  expect(await run(asked)).toMatchObject({ ...runtimeSettings, ...asked });
});
