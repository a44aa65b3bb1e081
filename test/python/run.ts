import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chatBehaviours, openWorld, type World } from "../support/client-world.ts";
import { startGateway } from "../support/gateway.ts";
import { startSensibleModel } from "./sensible-model.ts";

/** Opens a world for each file of tests, lets pytest run against it, and says how it went. Arguments go to pytest. */
const refusals = {
  "status-400": "fault:status@400",
  "status-401": "fault:status@401",
  "status-403": "fault:status@403",
  "status-404": "fault:status@404",
  "status-422": "fault:status@422",
  "status-429": "fault:status@429",
  "status-500": "fault:status@500",
  "status-503": "fault:status@503",
  reset: "fault:rst-before-headers",
  "not-json": "fault:html-200",
  "context-length": "fault:context-length",
};

const behaviours = chatBehaviours(refusals);

const files = [
  ["openai", "test_openai.py"],
  ["openai", "test_langchain.py"],
  ["openai", "test_audio.py"],
  ["llama-index", "test_openai.py"],
  ["llama-index", "test_llama_index.py"],
] as const;
/** Frameworks decide by themselves what they ask for: their upstream answers accordingly. */
const frameworkFiles = ["test_pydantic_ai.py", "test_langchain_standard.py"];

const here = import.meta.dir;
let passed = 0;
let failed = 0;

for (const [environment, file] of files) {
  await using world = await openWorld(behaviours);
  await using window = openWindow(world);
  const counts = await pytest(environment, file, {
    SLUICE_URL: world.baseURL,
    SLUICE_KEY: world.key,
    SLUICE_NARROW_KEY: world.narrowKey,
    SLUICE_WORLD: window.url,
  });
  passed += counts.passed;
  failed += counts.failed;
}
for (const file of frameworkFiles) {
  const counts = await withSensibleModel((variables) => pytest("frameworks", file, variables));
  passed += counts.passed;
  failed += counts.failed;
}
const examples = await guides();
passed += examples.passed;
failed += examples.failed;
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;

/** Lets the tests, which are another process, see what the upstreams saw and what the gateway logged. */
function openWindow(world: World): AsyncDisposable & { readonly url: string } {
  let mark = "";
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const { pathname, searchParams } = new URL(request.url);
      switch (pathname) {
        case "/models":
          return Response.json([...world.upstreams.keys()]);
        case "/attempt": {
          const { body, tokensSent, choicesSent, usageSent, endedBy } = world.lastAttempt(searchParams.get("model") ?? "");
          return Response.json({
            received: JSON.parse(new TextDecoder().decode(body)) as unknown,
            sent: tokensSent.join(""),
            choices: choicesSent.map((pieces) => pieces.join("")),
            usage: usageSent === null ? null : (JSON.parse(usageSent) as unknown),
            endedBy,
          });
        }
        case "/lines": {
          const since = mark;
          mark = await world.sentinel();
          return Response.json(since === "" ? [] : world.linesBetween(since, mark));
        }
        default:
          return new Response(null, { status: 404 });
      }
    },
  });
  return { url: server.url.origin, [Symbol.asyncDispose]: () => server.stop(true) };
}

async function withSensibleModel<T>(use: (variables: Readonly<Record<string, string>>) => Promise<T>): Promise<T> {
  const upstream = startSensibleModel();
  const key = "sk-client-of-these-frameworks";
  try {
    await using gateway = await startGateway({
      config: {
        keys: [{ name: "framework", key }],
        channels: [{ name: "sensible", base_url: upstream.url.origin, api_key: "sk-of-the-upstream", models: ["sensible", "thinking"] }],
      },
    });
    // LangChain's tests leave it to the settings that tests which are coroutines are run as such.
    const settings = { PYTEST_ADDOPTS: "-o asyncio_mode=auto -o asyncio_default_test_loop_scope=session" };
    return await use({ SLUICE_URL: `${gateway.url}/v1`, SLUICE_KEY: key, SLUICE_NARROW_KEY: "", SLUICE_WORLD: "", ...settings });
  } finally {
    await upstream.stop(true);
  }
}

/** The examples of docs/guides/clients.md in Python, which another test skips where these environments are missing. */
async function guides(): Promise<{ passed: number; failed: number }> {
  const command = [process.execPath, "test", "test/project/guides.test.ts", "-t", "\\.py$"];
  const child = Bun.spawn(command, { cwd: resolve(here, "../.."), stdout: "inherit", stderr: "pipe" });
  const report = await new Response(child.stderr).text();
  const [, passed = "0"] = /^ *(\d+) pass$/m.exec(report) ?? [];
  if ((await child.exited) === 0 && passed !== "0") return { passed: Number(passed), failed: 0 };
  console.error(report);
  return { passed: Number(passed), failed: 1 };
}

async function pytest(
  environment: string,
  file: string,
  variables: Readonly<Record<string, string>>,
): Promise<{ passed: number; failed: number }> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-python-"));
  const report = join(directory, "report.xml");
  const python = resolve(here, `../../.venv/${environment}/bin/python`);
  const flags = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", `--junitxml=${report}`, ...process.argv.slice(2)];
  const child = Bun.spawn([python, ...flags, file], {
    cwd: here,
    // Nothing of the outside: a proxy or a key in the environment would be used by the clients.
    env: { PATH: process.env["PATH"] ?? "", HOME: directory, LANG: "C.UTF-8", PYTHONDONTWRITEBYTECODE: "1", ...variables },
    stdout: "inherit",
    stderr: "inherit",
  });
  try {
    const code = await child.exited;
    const suite = /<testsuite [^>]*>/.exec(await readFile(report, "utf8").catch(() => ""))?.[0];
    if (suite === undefined) throw new Error(`pytest ended with ${code} and without a report`);
    const count = (name: string): number => Number(new RegExp(` ${name}="(\\d+)"`).exec(suite)?.[1] ?? 0);
    const broken = count("failures") + count("errors");
    return { passed: count("tests") - broken - count("skipped"), failed: broken };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
