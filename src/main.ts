import { readFileSync } from "node:fs";
import { App } from "./app.ts";
import { parseArguments, type ModelsRequest } from "./cli/arguments.ts";
import { renderCheck } from "./cli/check.ts";
import { openFilesMax } from "./cli/open-files.ts";
import { providerVariables, settingsFromEnvironment } from "./config/environment.ts";
import { localModels } from "./engines/catalog.ts";
import { engineEnvironment } from "./engines/environment.ts";
import { parseListen } from "./config/listen.ts";
import { loadConfig, renderProblem, type Problem, type Settings } from "./config/load.ts";
import { nearest } from "./config/nearest.ts";
import { watchFile } from "./config/watch.ts";
import { Log } from "./telemetry/log.ts";
import { writeStdout } from "./telemetry/stdout.ts";
import manifest from "../package.json" with { type: "json" };

/** EX_CONFIG of sysexits.h. */
const configExitCode = 78;

const invocation = parseArguments(process.argv.slice(2), manifest.version);
switch (invocation.command) {
  case "help":
  case "version":
    console.log(invocation.text);
    break;
  case "mistake":
    console.error(invocation.text);
    process.exitCode = invocation.exitCode;
    break;
  case "check":
    await check(invocation.file ?? environmentFile(), invocation.json);
    break;
  case "models":
    await models(invocation.config ?? environmentFile(), invocation.request);
    break;
  case "start":
    await start(invocation.config ?? environmentFile(), invocation.listen);
    break;
}

function environmentFile(): string | null {
  return process.env["SLUICE_CONFIG"] || null;
}

type Read =
  | { readonly ok: true; readonly settings: Settings; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

async function read(file: string | null): Promise<Read> {
  const nofile = openFilesMax();
  const models = await localModels();
  if (file === null) return settingsFromEnvironment({ env: process.env, nofile, localModels: models });
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    const reason = `the file cannot be read (${(error as { code?: string }).code ?? "unknown reason"})`;
    return { ok: false, problems: [{ line: null, path: "", reason, mend: "check its path and permissions" }] };
  }
  return loadConfig({ path: file, text, env: process.env, nofile, localModels: models });
}

async function check(file: string | null, json: boolean): Promise<void> {
  const result = await read(file);
  const report = {
    file,
    ok: result.ok,
    problems: result.ok ? [] : result.problems,
    warnings: result.ok ? result.warnings : [],
    channels: result.ok ? result.settings.channels.length : 0,
    keys: result.ok ? result.settings.keys.length : 0,
  };
  const { text, exitCode } = renderCheck(report, json, renderProblem);
  console.log(text);
  process.exitCode = exitCode;
}

async function models(file: string | null, request: ModelsRequest): Promise<void> {
  const result = await read(file);
  if (!result.ok) {
    for (const problem of result.problems) console.error(renderProblem(file, problem));
    process.exitCode = configExitCode;
    return;
  }
  // Only here: no other command needs what it brings along.
  const { runModels } = await import("./cli/models.ts");
  process.exitCode = await runModels(request, { dataDir: result.settings.dataDir, env: process.env, nearest });
}

async function start(file: string | null, listen: string | null): Promise<void> {
  // The HTTP client would follow these on its own; a proxy is a channel's setting.
  for (const name of ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"]) delete process.env[name];
  const result = await read(file);
  if (!result.ok) {
    for (const problem of result.problems) console.error(renderProblem(file, problem));
    console.error("Nothing was started.");
    process.exit(configExitCode);
  }
  for (const warning of result.warnings) console.error(`warning: ${renderProblem(file, warning)}`);
  const override = listen === null ? null : parseListen(listen);
  if (listen !== null && override === null) {
    console.error(`--listen takes HOST:PORT, such as 127.0.0.1:4400`);
    process.exit(64);
  }
  const settled = (settings: Settings): Settings => (override === null ? settings : { ...settings, listen: override });

  const log = new Log(writeStdout, result.settings.logLevel);
  const app = new App(settled(result.settings), log, engineEnvironment(process.env));
  const reload = async (): Promise<void> => {
    const next = await read(file);
    if (next.ok) return app.reload(settled(next.settings));
    log.error("reload_failed", {
      problems: next.problems.map((problem) => renderProblem(file, problem)),
      detail: "the old configuration stays",
    });
  };
  answerSignals(app, log, () => void reload());
  try {
    await app.start({ configFile: file, variables: providerVariables });
  } catch (error) {
    const code = (error as { code?: string }).code;
    const { host, port } = settled(result.settings).listen;
    console.error(
      code === "EADDRINUSE"
        ? `Port ${port} of ${host} is taken. Stop what uses it, or start with --listen ${host}:PORT.`
        : `Cannot listen on ${host}:${port} (${code ?? String(error)}).`,
    );
    process.exit(1);
  }
  if (file !== null) watchFile(file, () => void reload());
}

/** SIGTERM drains, a second signal ends it at once; SIGINT is a person at a terminal who does not wait for load balancers. */
function answerSignals(app: App, log: Log, reload: () => void): void {
  let asked = 0;
  const stop = (lingers: boolean): void => {
    asked += 1;
    if (asked > 1) {
      app.abandon();
      process.exit(0);
    }
    void app.stop(lingers).then(() => process.exit(0));
  };
  process.on("SIGTERM", () => stop(true));
  process.on("SIGINT", () => stop(false));
  process.on("SIGHUP", reload);
  const bug = (error: unknown): void =>
    log.error("bug", { detail: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  process.on("uncaughtException", bug);
  process.on("unhandledRejection", bug);
}
