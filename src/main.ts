import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { operatorTokenProblem } from "./admin/login/operator-token.ts";
import type { ExplainedSettings, ToldCommands } from "./admin/services.ts";
import type { App, AppOptions } from "./app/app.ts";
import { schemaText } from "./app/schema-text.ts";
import { configExitCode, StartProblem } from "./cli/process/start-problem.ts";
import type { Invocation, ModelsRequest, StartInvocation } from "./cli/invocation.ts";
import { parseStart } from "./cli/program.ts";
import type { ChannelsRequest } from "./cli/channels/arguments.ts";
import { renderCheck } from "./cli/check.ts";
import type { CommandSurroundings } from "./cli/command-context.ts";
import { CommandError } from "./cli/command-error.ts";
import { remoteGateway } from "./cli/remote-gateway.ts";
import type { StoreRequest } from "./cli/command-registry.ts";
import type { DoctorRequest } from "./cli/doctor/arguments.ts";
import { askHealth, healthAddress } from "./cli/health.ts";
import { isExecutable, ownProgram, withRuntimeSettings } from "./cli/process/executable.ts";
import { onEndSignals } from "./cli/process/end-signals.ts";
import { holdSignals, type EarlySignals } from "./cli/process/early-signals.ts";
import { listenProblem } from "./cli/process/listen-problem.ts";
import { openFilesMax } from "./cli/process/open-files.ts";
import { asTyped, commandName, launchOf, toldLaunch } from "./cli/process/own-command.ts";
import { parentOf, type Parent } from "./cli/process/parent.ts";
import { temporaryDirectoryProblem } from "./cli/process/temporary-directory.ts";
import { interruption, processTerminal, type Terminal } from "./cli/terminal.ts";
import { wholeLines } from "./cli/whole-lines.ts";
import { workerCountProblem, listenError, Workers } from "./cli/process/workers.ts";
import { providerVariables, settingsFromEnvironment } from "./config/environment.ts";
import { readFileText } from "./config/file-text.ts";
import { localModels } from "./engines/catalog.ts";
import { engineEnvironment } from "./engines/command.ts";
import { machineFacts } from "./net/credentials/machine-facts.ts";
import { channelTestSettings, listenOverrides, overridden } from "./config/overrides.ts";
import { loadConfig, readSecretFile, renderProblem, type Loaded, type Problem, type Settings } from "./config/load.ts";
import { nearest } from "./config/findings/nearest.ts";
import { StorageError } from "./gateway/storage.ts";
import { oneAtATime, stateOf, watchFile } from "./config/watch.ts";
import { Log, writeStdout } from "./telemetry/log.ts";
import { lineWriter } from "./telemetry/log-text.ts";
import manifest from "../package.json" with { type: "json" };

const launch = launchOf(process.env, manifest.name, isExecutable ? process.argv0 : null);
const toldCommands: ToldCommands = { name: commandName(toldLaunch(launch)), asTyped: (text) => asTyped(text, toldLaunch(launch)) };
const given = process.argv.slice(2);
// `npx sluice` alone starts the gateway.
const words = given.length === 0 && launch.by === "npx" ? ["start"] : given;
const invocation =
  words[0] === "start" ? parseStart(words, manifest.version) : (await import("./cli/arguments.ts")).parseArguments(words, manifest.version);
switch (invocation.command) {
  case "help":
  case "version":
    console.log(asTyped(invocation.text, launch));
    break;
  case "completion":
    process.stdout.write(invocation.text);
    break;
  case "usage-error":
    console.error(asTyped(invocation.text, launch));
    process.exitCode = invocation.exitCode;
    break;
  case "check":
    await check(invocation.file ?? environmentFile(), invocation.json);
    break;
  case "health": {
    ignoreProxies();
    const { text, exitCode } = await askHealth(healthAddress(invocation.address, process.env), fetch);
    (exitCode === 0 ? console.log : console.error)(text);
    process.exitCode = exitCode;
    break;
  }
  case "models":
    await models(invocation.config ?? environmentFile(), invocation.request);
    break;
  case "schema":
    process.stdout.write(await schemaText(invocation.name));
    break;
  case "store":
  case "channels":
    await storeOrRemote(invocation);
    break;
  case "init": {
    // Imported here because no other command needs it, as below.
    const [{ runInit }, { initContext }] = await Promise.all([import("./cli/init/command.ts"), import("./app/init-context.ts")]);
    process.exitCode = await runInit(invocation.request, initContext(typedTerminal(), process.env, readMasterKey));
    break;
  }
  case "doctor":
    await doctor(invocation.config ?? environmentFile(), invocation.request);
    break;
  case "import": {
    // Imported here because no other command needs it.
    const { runImport } = await import("./cli/import/command.ts");
    process.exitCode = await runImport(invocation.request, {
      schemaText,
      readText: async (file) => {
        const text = await readFileText(file);
        if (typeof text === "string") return { text };
        return { problem: renderProblem(file, { ...text, fix: "check the path, and that this user may read it" }) };
      },
      problemsOf: async (text, env) => {
        const loaded = await loadConfig({ path: null, text, env, nofile: openFilesMax() });
        return loaded.ok ? [] : loaded.problems.map((problem) => renderProblem(null, problem));
      },
    });
    break;
  }
  case "start":
    await start(invocation.config ?? environmentFile(), invocation);
    break;
}

/** Opens the gateway. If the store cannot be opened, prints why and how to fix it, and ends the process. */
async function openApp(settings: Settings, options: AppOptions): Promise<App> {
  try {
    // Imported here because the other commands start faster without it.
    const { App: TheApp } = await import("./app/app.ts");
    return await TheApp.open(settings, options);
  } catch (error) {
    complain(error instanceof Error ? error.message : String(error));
    complain("The gateway was not started.");
    return process.exit(error instanceof StartProblem ? error.exitCode : 1);
  }
}

async function configuration(file: string | null): Promise<ExplainedSettings> {
  // Imported here because only the admin API needs it.
  const { explainedConfiguration } = await import("./app/configuration/explained-configuration.ts");
  return explainedConfiguration(file, process.env);
}

function environmentFile(): string | null {
  return process.env["SLUICE_CONFIG"] || null;
}

/** Reads the configuration of a command that does not listen: a key must be revocable although the certificate has expired. */
function readForCommand(file: string | null): Promise<Loaded> {
  return read(file, false);
}

async function read(file: string | null, checksCertificate = true): Promise<Loaded> {
  const nofile = openFilesMax();
  const models = await localModels();
  if (file === null) return settingsFromEnvironment({ env: process.env, nofile, localModels: models, readSecretFile, checksCertificate });
  const text = await readFileText(file);
  if (typeof text !== "string") return { ok: false, problems: [text] };
  return loadConfig({ path: file, text, env: process.env, nofile, localModels: models, checksCertificate });
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
  console.log(json ? text : asTyped(text, launch));
  process.exitCode = exitCode;
}

async function doctor(file: string | null, request: DoctorRequest): Promise<void> {
  ignoreProxies();
  const [{ runDoctor }, { doctorContext }] = await Promise.all([import("./cli/doctor/command.ts"), import("./app/doctor-context.ts")]);
  const own = typedTerminal();
  const terminal = { ...own, print: (text: string) => own.print(request.json ? text : asTyped(text, launch)) };
  const exitCode = await runDoctor(
    request,
    doctorContext(file, await read(file), manifest.optionalDependencies["@oven/bun-linux-x64"], terminal),
  );
  // Connections that were given up on may still be open.
  process.exit(exitCode);
}

/** Hints name commands as they have to be typed. */
function complain(text: string): void {
  console.error(asTyped(text, launch));
}

function typedTerminal(): Terminal {
  const own = processTerminal();
  return { ...own, say: (text) => own.say(asTyped(text, launch)) };
}

async function models(file: string | null, request: ModelsRequest): Promise<void> {
  const result = await readForCommand(file);
  if (!result.ok) {
    for (const problem of result.problems) complain(renderProblem(file, problem));
    process.exitCode = configExitCode;
    return;
  }
  if (request.act === "add" && isExecutable) {
    console.error("This executable runs no models. Install Sluice with npm to run models on this machine (docs/embedded.md).");
    process.exitCode = 1;
    return;
  }
  // Imported here because no other command needs it.
  const { runModels } = await import("./cli/models/models.ts");
  process.exitCode = await runModels(request, {
    dataDir: result.settings.dataDir,
    env: process.env,
    nearest,
    asTyped: (text) => asTyped(text, launch),
  });
}

/** A gateway elsewhere if one is named, else the store of the configuration. */
async function storeOrRemote(invocation: Extract<Invocation, { readonly command: "store" | "channels" }>): Promise<void> {
  const { config, remote: given = {} } = invocation;
  const readResourceText: CommandSurroundings["readResourceText"] = async (file) => {
    const { readResourceText: read } = await import("./app/resource-text.ts");
    return read(file, process.env);
  };
  const context = { terminal: typedTerminal(), wallMs: Date.now, interruption, schemaText, readResourceText };
  const remote = remoteGateway(given, config, {
    url: process.env["SLUICE_ADMIN_URL"] || null,
    token: () => process.env["SLUICE_ADMIN_TOKEN"] || readNamedFile("SLUICE_ADMIN_TOKEN_FILE"),
  });
  if (remote instanceof CommandError) {
    context.terminal.say(remote.message);
    process.exitCode = remote.exitCode;
    return;
  }
  if (remote === null) {
    const file = config ?? environmentFile();
    return invocation.command === "store" ? store(file, invocation.request) : channels(file, invocation.request);
  }
  const { runRemoteChannelTest, runRemoteCommand } = await import("./cli/store-commands.ts");
  process.exitCode = await (invocation.command === "store"
    ? runRemoteCommand(invocation.request, remote, context)
    : runRemoteChannelTest(invocation.request, remote, context));
}

async function channels(file: string | null, request: ChannelsRequest): Promise<void> {
  const result = await readForCommand(file);
  if (!result.ok) {
    for (const problem of result.problems) complain(renderProblem(file, problem));
    process.exitCode = configExitCode;
    return;
  }
  const { settings } = result;
  // Imported here because no other command needs it.
  const [{ runChannels }, { testTarget }] = await Promise.all([import("./cli/channels/command.ts"), import("./app/channel-test.ts")]);
  const exitCode = await runChannels(request, {
    names: settings.channels.map(({ name }) => name),
    nearest,
    start: async (name) => {
      const dataDir = mkdtempSync(join(tmpdir(), "sluice-channels-test-"));
      process.once("exit", () => rmSync(dataDir, { recursive: true, force: true }));
      endOnSignals({ say: console.error });
      const token = `channels-test-${crypto.randomUUID()}`;
      const app = await openApp(channelTestSettings(settings, name, token, dataDir), {
        log: new Log((bytes) => bytes.length, "error"),
        engineEnvironment: engineEnvironment(process.env),
        machine: machineFacts(process.env),
        masterKey: null,
        adminToken: null,
        version: manifest.version,
        told: toldCommands,
        configuration: () => configuration(file),
        workers: 1,
        // It neither greets nor opens the admin API.
        isLeader: false,
        others: null,
      });
      const abandon = (): void => app.abandon();
      process.once("exit", abandon);
      const url = await app.start({ configFile: file, variables: providerVariables, asTyped: (text) => asTyped(text, launch) });
      const stop = async (): Promise<void> => {
        await app.stop(false);
        process.off("exit", abandon);
      };
      return { ...testTarget(url, token, () => performance.now()), stop };
    },
  });
  // A gateway that was stopped still has timers.
  process.exit(exitCode);
}

async function store(file: string | null, request: StoreRequest): Promise<void> {
  ignoreProxies();
  const result = await readForCommand(file);
  if (!result.ok) {
    for (const problem of result.problems) complain(renderProblem(file, problem));
    process.exitCode = configExitCode;
    return;
  }
  const [{ runStoreCommand }, { commandContext }] = await Promise.all([
    import("./cli/store-commands.ts"),
    import("./app/command-context.ts"),
  ]);
  const context = commandContext(result.settings, file, readMasterKey(), process.env, typedTerminal());
  if (request.on === "backup") endOnSignals(context.terminal);
  process.exitCode = await runStoreCommand(request, context);
}

/** What is unfinished or temporary is removed when the process exits, which it does not do by itself when a signal kills it. */
function endOnSignals(terminal: Pick<Terminal, "say">): void {
  for (const [signal, number] of [
    ["SIGHUP", 1],
    ["SIGINT", 2],
    ["SIGTERM", 15],
  ] as const) {
    process.on(signal, () => {
      terminal.say("Stopped.");
      // The exit code that a shell reports for a program that a signal ended.
      process.exit(128 + number);
    });
  }
}

/**
 * The runtime would use these proxies for every connection; here a proxy is a setting of a channel. By NO_PROXY it would also go past
 * the proxy of a channel.
 */
function ignoreProxies(): void {
  for (const name of ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]) {
    delete process.env[name];
    delete process.env[name.toLowerCase()];
  }
}

async function start(file: string | null, given: StartInvocation): Promise<void> {
  withRuntimeSettings(process.env);
  const early = holdSignals(process);
  ignoreProxies();
  // A change during the start, which takes a while, must not be missed.
  const since = file === null ? null : stateOf(file);
  const result = await read(file);
  if (!result.ok) {
    for (const problem of result.problems) complain(renderProblem(file, problem));
    console.error("The gateway was not started.");
    process.exit(configExitCode);
  }
  if (given.worker === undefined) {
    for (const warning of result.warnings) complain(`warning: ${renderProblem(file, warning)}`);
    const trouble = temporaryDirectoryProblem();
    if (trouble !== null) complain(`warning: ${trouble}`);
  }
  const overrides = listenOverrides(given);
  if (typeof overrides === "string") {
    console.error(overrides);
    process.exit(64);
  }
  const withOverrides = (settings: Settings): Settings => {
    const changed = overridden(settings, overrides);
    return given.workerPort === undefined ? changed : { ...changed, listen: { ...changed.listen, port: given.workerPort } };
  };
  const adminToken = readAdminToken();
  const workers = given.workers ?? 1;
  const parent = given.worker === undefined ? null : parentOf(process);
  if (parent === null && workers !== 1) return superviseWorkers(workers, withOverrides(result.settings), early);

  const isLeader = parent === null || given.worker === 1;
  const log = makeLog(parent === null ? writeStdout : wholeLines(writeStdout), result.settings);
  const app = await openApp(withOverrides(result.settings), {
    log,
    engineEnvironment: engineEnvironment(process.env),
    machine: machineFacts(process.env),
    masterKey: readMasterKey(),
    adminToken,
    version: manifest.version,
    told: toldCommands,
    configuration: () => configuration(file),
    workers: parent === null ? 1 : workers,
    isLeader,
    others:
      parent === null || given.worker === undefined
        ? null
        : {
            number: given.worker,
            count: workers,
            reports: (about) => parent.otherReports(about),
            onReportWanted: (about, make) => parent.onReportWanted(about, make),
            onEnded: (free) => parent.onWorkerEnded(free),
          },
  });
  let told = new Set(result.warnings.map(warningKey));
  const reload = oneAtATime(async () => {
    // Without its certificate, which is renewed by itself: one that has expired must not keep a key from being revoked.
    const next = await read(file, false);
    if (next.ok) {
      // By one worker, and only what its last reading did not say already.
      const warnings = isLeader ? next.warnings.filter((warning) => !told.has(warningKey(warning))) : [];
      for (const warning of warnings) log.warn("config_warning", { detail: asTyped(renderProblem(file, warning), launch) });
      told = new Set(next.warnings.map(warningKey));
      // Not awaited: the next change may be a revocation, which must not wait until upstreams have listed their models.
      void app.reload(withOverrides(next.settings));
      return;
    }
    log.error("reload_failed", {
      problems: next.problems.map((problem) => asTyped(renderProblem(file, problem), launch)),
      detail: "the old configuration stays",
    });
  });
  handleSignals(app, log, () => void reload(), parent);
  const reloadRequested = early.release();
  try {
    const url = await app.start({ configFile: file, variables: providerVariables, asTyped: (text) => asTyped(text, launch) });
    parent?.ready(Number(new URL(url).port), app.member);
  } catch (error) {
    if (error instanceof StartProblem) {
      complain(error.message);
      process.exit(error.exitCode);
    }
    if (error instanceof StorageError) {
      complain(error.message);
      process.exit(1);
    }
    console.error(listenProblem(error, withOverrides(result.settings).listen, "--listen"));
    process.exit(1);
  }
  if (reloadRequested) void reload();
  if (file !== null) watchFile(file, () => void reload(), { since });
}

/** Without its line, which moves when the file grows above it. */
function warningKey({ path, reason }: Problem): string {
  return `${path}: ${reason}`;
}

/** The master key, if it is not in the data folder: the variable itself, or the file that the other one names. */
function readMasterKey(): string | null {
  return process.env["SLUICE_MASTER_KEY"] || readNamedFile("SLUICE_MASTER_KEY_FILE");
}

/** The text of the file that a variable names; null if it is not set. */
function readNamedFile(variable: string): string | null {
  const file = process.env[variable] || null;
  if (file === null) return null;
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    const reason = (error as { code?: string }).code ?? "unknown reason";
    console.error(`The file ${file}, which ${variable} names, cannot be read (${reason}). Check its path, and that this user may read it.`);
    return process.exit(configExitCode);
  }
}

/** Reads the operator's own token for the admin API from the file that ADMIN_TOKEN_FILE names. */
function readAdminToken(): string | null {
  const token = readNamedFile("ADMIN_TOKEN_FILE");
  if (token === null) return null;
  const problem = operatorTokenProblem(token);
  if (problem === null) return token;
  console.error(problem);
  return process.exit(configExitCode);
}

function makeLog(write: typeof writeStdout, { logLevel, logFormat }: Pick<Settings, "logLevel" | "logFormat">): Log {
  // https://no-color.org
  const terminal = { isTerminal: process.stdout.isTTY, isColoured: (process.env["NO_COLOR"] ?? "") === "" };
  return new Log(write, logLevel, lineWriter(logFormat, terminal));
}

/** Starts this program several times on one port, and supervises the processes. */
async function superviseWorkers(workers: number, { listen, logLevel, logFormat }: Settings, early: EarlySignals): Promise<void> {
  const refused = workerCountProblem(workers, availableParallelism());
  if (refused !== null) {
    console.error(refused);
    process.exit(64);
  }
  if (listen.path !== undefined) {
    console.error("Several workers need a port: a unix socket belongs to one process. Start with --workers 1, or listen on HOST:PORT.");
    process.exit(64);
  }
  const refusal = listenError(listen);
  if (refusal !== null) {
    console.error(listenProblem(refusal, listen, "--listen"));
    process.exit(1);
  }
  const log = makeLog(writeStdout, { logLevel, logFormat });
  const supervisor = new Workers({
    count: workers,
    command: (number, port) => {
      // If the system chose the port of the first worker, the others use the same.
      const fixed = listen.port === 0 && port !== null ? ["--worker-port", String(port)] : [];
      return [...ownProgram(), ...process.argv.slice(2), "--worker", String(number), ...fixed];
    },
    environment: process.env,
    log,
  });
  onEndSignals(process, (signal) => supervisor.stop(signal === "SIGTERM"));
  process.on("SIGHUP", () => supervisor.reload());
  // The workers read the file after this, so an earlier SIGHUP is already served.
  early.release();
  const code = await supervisor.ended;
  log.flush();
  process.exit(code);
}

/**
 * SIGTERM drains, and a second signal ends the process at once. SIGINT comes from a person at a terminal, so it does not wait for
 * load balancers. A worker may get a signal both directly and from its parent, so only the parent's order may end it at once.
 */
function handleSignals(app: App, log: Log, reload: () => void, parent: Parent | null): void {
  let asked = 0;
  const end = (): never => {
    app.abandon();
    return process.exit(0);
  };
  const stop = (lingers: boolean): void => {
    asked += 1;
    if (asked > 1) return parent === null ? end() : undefined;
    void app.stop(lingers).then(() => process.exit(0));
  };
  parent?.onOrder((order) => {
    if (order === "reload") reload();
    else if (order === "end") end();
    else stop(order === "stop");
  });
  onEndSignals(process, (signal) => stop(signal === "SIGTERM"));
  process.on("SIGHUP", reload);
  const bug = (error: unknown): void =>
    log.error("bug", { detail: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  process.on("uncaughtException", bug);
  process.on("unhandledRejection", bug);
}
