import { describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parse } from "yaml";
import { parseArguments } from "../../src/cli/arguments.ts";
import { usageExitCode } from "../../src/cli/invocation.ts";
import { healthAddress } from "../../src/cli/health.ts";
import { configExitCode } from "../../src/cli/process/start-problem.ts";
import { loadConfig, type Settings } from "../../src/config/load.ts";
import { localModels } from "../../src/engines/catalog.ts";
import { root } from "../../scripts/source-tree.ts";
import { checked, toolNamed } from "../support/deploy-tools.ts";
import { allOf, copied, environmentOf, execForm, healthCommand, inContext, lastOf, stageNamed, stages } from "../support/dockerfile.ts";

const deploy = join(root, "deploy");
const images = ["sluice", "slim"].map((name) => [name, stageNamed(name)] as const);
const started = (args: readonly string[]) => parseArguments(args, "");
/** What the gateway may take after its last call has ended, if neither the store nor a collector answers. */
const closingMs = 30_000;

/** The variables that the gateway itself reads, wherever its source names one. */
const known = ["SLUICE_CONFIG", "SLUICE_MASTER_KEY", "SLUICE_MASTER_KEY_FILE", "ADMIN_TOKEN_FILE"];

test("the variables that deployments set are read by the gateway", () => {
  const source = readFileSync(join(root, "src/main.ts"), "utf8");
  for (const name of known) expect(source).toContain(`"${name}"`);
});

describe("the Dockerfile", () => {
  test("builds with models unless it is told otherwise", () => {
    expect(stages.at(-1)?.name).toBe("sluice");
    expect(stages.map(({ name }) => name)).toContain("slim");
  });

  test("names a version of every base, and a Node that the package supports", () => {
    for (const { base } of stages) expect(base).toMatch(/^[a-z0-9./-]+:(?!latest)\S+$/);
    const nodes = stages.flatMap(({ base }) => /^node:(\d+)-/.exec(base)?.[1] ?? []);
    expect(nodes.length).toBe(3);
    for (const node of nodes) expect(Number(node)).toBeGreaterThanOrEqual(20);
  });

  test("copies what is there: in the build context, or in a stage before", () => {
    stages.forEach((stage, at) => {
      for (const instruction of allOf(stage, "COPY")) {
        const { sources } = copied(instruction);
        const { from } = instruction.flags;
        if (from !== undefined) expect(stages.slice(0, at).map(({ name }) => name)).toContain(from);
        else expect(sources.filter((source) => !inContext(source))).toEqual([]);
      }
    });
  });

  test("lets nothing into the build context that is not copied", () => {
    const used = new Set(
      stages.flatMap((stage) =>
        allOf(stage, "COPY")
          .filter(({ flags }) => flags["from"] === undefined)
          .flatMap((one) => copied(one).sources.map((source) => source.replace(/\/.*$/, ""))),
      ),
    );
    const rules = readFileSync(join(root, ".dockerignore"), "utf8").match(/^!.+$/gm) ?? [];
    expect(rules.map((rule) => rule.slice(1)).toSorted()).toEqual([...used].toSorted());
  });

  test.each(images)("makes %s run as a user without a name, with its data in a volume, and end in order", (_, stage) => {
    expect(lastOf(stage, "USER")).toMatch(/^[1-9]\d{3,}:[1-9]\d{3,}$/);
    expect(execForm(lastOf(stage, "VOLUME"))).toEqual(["/data"]);
    const owners = allOf(stage, "COPY").filter((one) => copied(one).to === "/data");
    expect(owners.map(({ flags }) => flags["chown"])).toEqual([lastOf(stage, "USER")]);
    // The default data folder is ./data.
    expect(lastOf(stage, "WORKDIR")).toBe("/");
    expect(lastOf(stage, "STOPSIGNAL")).toBe("SIGTERM");
    for (const label of ["title", "description", "licenses"])
      expect(lastOf(stage, "LABEL")).toContain(`org.opencontainers.image.${label}=`);
  });

  test.each(images)("makes %s start and check its health without a shell, at the port that it exposes", (_, stage) => {
    const entry = execForm(lastOf(stage, "ENTRYPOINT"));
    expect(entry[0]).toStartWith("/");
    expect(entry.join(" ")).not.toMatch(/\bsh\b/);
    const port = lastOf(stage, "EXPOSE");
    expect(started(execForm(lastOf(stage, "CMD")))).toMatchObject({ command: "start", listen: `0.0.0.0:${port}`, admin: null });
    expect(healthCommand(stage)).toEqual([...entry, "health"]);
    expect(started(["health"])).toEqual({ command: "health", address: null });
    expect(healthAddress(null, {})).toBe(`http://127.0.0.1:${port}`);
  });

  test("sets what the launcher of a clone sets, where the launcher is left out", () => {
    const launcher = readFileSync(join(root, "bin/bun"), "utf8");
    const settings = [...launcher.matchAll(/^: "\$\{(\w+):=(\w+)\}"$/gm)].map(([, name = "", value = ""]) => [name, value]);
    expect(settings.length).toBe(2);
    expect(environmentOf(stageNamed("sluice"))).toMatchObject(Object.fromEntries(settings));
  });

  test("is run as the compose file runs it, by the command that docs/deploy.md shows", () => {
    const page = readFileSync(join(deploy, "../docs/deploy.md"), "utf8");
    const [shown = ""] = /^docker run (?:.*\\\n)*.*$/m.exec(page) ?? [];
    const compose = readFileSync(join(deploy, "compose/compose.yaml"), "utf8");
    const [, grace] = /stop_grace_period: (\d+)s\n +depends_on/.exec(compose) ?? [];
    for (const option of [`--stop-timeout ${grace}`, "--log-driver local", "--read-only", "--cap-drop ALL", "--ulimit nofile=65536"]) {
      expect(shown).toContain(option);
    }
  });

  const hadolint = toolNamed("hadolint");
  test.skipIf(hadolint === null)("has no objection of hadolint", () => {
    expect(checked([hadolint ?? "", join(deploy, "Dockerfile")])).toEqual({ code: 0, said: "" });
  });
});

interface ComposeService {
  readonly image: string;
  readonly build?: { readonly context: string; readonly dockerfile: string; readonly target: string };
  readonly user?: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly restart?: string;
  readonly logging?: { readonly driver: string; readonly options: Readonly<Record<string, string>> };
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly secrets?: readonly string[];
  readonly volumes?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly ports?: readonly string[];
  readonly networks: readonly string[];
  readonly stop_grace_period?: string;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
}

interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>;
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

describe("the compose file", () => {
  const folder = join(deploy, "compose");
  const file = join(folder, "compose.yaml");
  const compose = parse(readFileSync(file, "utf8"), { merge: true }) as ComposeFile;
  const services = Object.entries(compose.services);
  const { gateway, postgres, redis, prometheus } = compose.services;

  test("has a gateway, PostgreSQL, Redis and Prometheus, and none of them with a privilege or a root that can be written", () => {
    expect(services.map(([name]) => name)).toEqual(["gateway", "postgres", "redis", "prometheus"]);
    for (const [name, service] of services) {
      expect([name, service.read_only, service.cap_drop, service.security_opt]).toEqual([name, true, ["ALL"], ["no-new-privileges:true"]]);
      expect([name, service.restart]).toEqual([name, "unless-stopped"]);
      // The driver that Docker uses otherwise keeps every line for ever.
      expect([name, service.logging?.driver, Object.keys(service.logging?.options ?? {})]).toEqual([
        name,
        "local",
        ["max-size", "max-file"],
      ]);
      if (service.build === undefined) expect([name, service.image]).toEqual([name, expect.stringMatching(/:(?!latest)\S+$/)]);
      // Only this machine reaches a published port.
      for (const port of service.ports ?? []) expect(port).toStartWith("127.0.0.1:");
    }
    // These images start as root unless they are told otherwise, and could then not give up their privileges.
    for (const service of [postgres, redis]) expect(service?.user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
  });

  test("names only services, networks, volumes, secrets and files that are there, and all of them are used", () => {
    const used = { networks: new Set<string>(), volumes: new Set<string>(), secrets: new Set<string>() };
    for (const [, service] of services) {
      for (const name of service.networks) used.networks.add(name);
      for (const name of service.secrets ?? []) used.secrets.add(name);
      for (const volume of service.volumes ?? []) {
        const [from = ""] = volume.split(":");
        if (!from.startsWith(".")) used.volumes.add(from);
        else expect([volume, existsSync(resolve(folder, from)), volume.endsWith(":ro")]).toEqual([volume, true, true]);
      }
      for (const [name, { condition }] of Object.entries(service.depends_on ?? {})) {
        expect([name, name in compose.services, condition]).toEqual([name, true, "service_healthy"]);
      }
    }
    for (const kind of ["networks", "volumes", "secrets"] as const)
      expect([...used[kind]].toSorted()).toEqual(Object.keys(compose[kind]).toSorted());
  });

  test("checks the health of every service; the gateway's check comes with its image", () => {
    for (const [name, { healthcheck }] of services.filter(([one]) => one !== "gateway")) {
      expect([name, healthcheck?.test[0]]).toEqual([name, "CMD"]);
    }
    expect(gateway?.healthcheck).toBeUndefined();
    const { context = "", dockerfile = "", target = "" } = gateway?.build ?? {};
    expect(resolve(folder, context)).toBe(root);
    expect(join(root, dockerfile)).toBe(join(deploy, "Dockerfile"));
    expect(allOf(stageNamed(target), "HEALTHCHECK").length).toBe(1);
  });

  test("keeps the stores away from the world", () => {
    expect(compose.networks["inside"]?.internal).toBe(true);
    for (const service of [postgres, redis]) expect([service?.networks, service?.ports]).toEqual([["inside"], undefined]);
  });

  test("creates secrets with the commands at its head, each of which is a file that git ignores", () => {
    const [, names = ""] =
      /^#\s+for name in (.+); do openssl rand -hex 32 > secrets\/\$name; done$/m.exec(readFileSync(file, "utf8")) ?? [];
    expect(names.split(" ").toSorted()).toEqual(Object.keys(compose.secrets).toSorted());
    for (const [name, { file: secret }] of Object.entries(compose.secrets)) expect(secret).toBe(`./secrets/${name}`);
    expect(readFileSync(join(root, ".gitignore"), "utf8").split("\n")).toContain("/deploy/compose/secrets/");
  });

  /** The gateway's settings, with files in the place of its secrets. */
  async function settings(): Promise<Settings> {
    const secrets = mkdtempSync(join(tmpdir(), "sluice-test-"));
    for (const name of Object.keys(compose.secrets)) writeFileSync(join(secrets, name), `${"0123456789abcdef".repeat(4)}\n`);
    const environment = Object.entries(gateway?.environment ?? {}).map(([name, value]) => [name, value.replace("/run/secrets", secrets)]);
    const path = join(folder, "config/sluice.yaml");
    const loaded = await loadConfig({
      path,
      text: readFileSync(path, "utf8"),
      env: Object.fromEntries(environment) as Record<string, string>,
      nofile: 65_536,
      localModels: await localModels(),
    });
    rmSync(secrets, { recursive: true });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    return loaded.settings;
  }

  test("gives the gateway a configuration that it takes, with the addresses of the other services", async () => {
    const { store, state, dataDir, admin } = await settings();
    expect(new URL(store).host).toBe("postgres:5432");
    expect(new URL(store).password).toHaveLength(64);
    expect(new URL(store).pathname).toBe(`/${postgres?.environment?.["POSTGRES_DB"]}`);
    expect(new URL(store).username).toBe(postgres?.environment?.["POSTGRES_USER"] ?? "");
    expect(new URL(state).host).toBe("redis:6379");
    expect(gateway?.volumes).toContain(`gateway:${dataDir}`);
    expect(gateway?.ports).toContain(`127.0.0.1:${admin?.port}:${admin?.port}`);
  });

  test("sets variables that the gateway or its configuration reads, and secrets that it has", () => {
    const config = readFileSync(join(folder, "config/sluice.yaml"), "utf8");
    const asked = [...config.matchAll(/\$\{(\w+)/g)].map(([, name = ""]) => name);
    for (const [name, value] of Object.entries(gateway?.environment ?? {})) {
      expect([name, known.includes(name) || asked.includes(name.replace(/_FILE$/, ""))]).toEqual([name, true]);
      if (value.startsWith("/run/secrets/")) expect(gateway?.secrets).toContain(value.slice("/run/secrets/".length));
    }
    expect(gateway?.environment?.["SLUICE_CONFIG"]).toBe("/etc/sluice/sluice.yaml");
    expect(gateway?.volumes).toContain("./config:/etc/sluice:ro");
  });

  test("waits longer for the gateway to end than that lets its calls finish", async () => {
    const { service } = await settings();
    expect(Number.parseInt(gateway?.stop_grace_period ?? "", 10) * 1000).toBeGreaterThanOrEqual(
      service.lingerMs + service.drainMs + closingMs,
    );
  });

  test("has a Prometheus that finds the gateway, its token and the rules", async () => {
    const { admin, adminNames, metrics } = await settings();
    const config = parse(readFileSync(join(deploy, "prometheus/prometheus.yaml"), "utf8")) as {
      readonly rule_files: readonly string[];
      readonly scrape_configs: readonly {
        readonly job_name: string;
        readonly authorization?: { readonly credentials_file: string };
        readonly static_configs: readonly { readonly targets: readonly string[] }[];
      }[];
    };
    const rules = config.rule_files.map((name) => readFileSync(join(deploy, "prometheus", name), "utf8")).join("\n");
    // Alerts on what is not measured would never fire.
    expect([rules.includes("sluice_budget_"), metrics.budgets]).toEqual([true, true]);
    const job = config.scrape_configs.find(({ job_name }) => job_name === "sluice");
    expect(job?.static_configs).toEqual([{ targets: [`gateway:${admin?.port}`] }]);
    expect(adminNames).toContain("gateway");
    expect(job?.authorization?.credentials_file).toBe("/run/secrets/metrics-token");
    expect(prometheus?.secrets).toContain("metrics-token");
    expect(prometheus?.volumes).toContain("../prometheus:/etc/prometheus:ro");
    expect(prometheus?.command).toContain("--config.file=/etc/prometheus/prometheus.yaml");
    expect(prometheus?.networks.some((network) => gateway?.networks.includes(network))).toBe(true);
  });

  const schemas = toolNamed("check-jsonschema");
  test.skipIf(schemas === null)("is what the schema of compose files allows", () => {
    const { code, said } = checked([schemas ?? "", "--builtin-schema", "vendor.compose-spec", file]);
    expect([code, said]).toEqual([0, expect.stringContaining("ok")]);
  });

  const hasCompose = Bun.which("docker") !== null && checked(["docker", "compose", "version"]).code === 0;
  test.skipIf(!hasCompose)("is read by docker compose", () => {
    expect(checked(["docker", "compose", "--file", file, "config", "--quiet"])).toEqual({ code: 0, said: "" });
  });
});

describe("the unit of systemd", () => {
  const file = join(deploy, "systemd/sluice.service");
  const unit = readFileSync(file, "utf8");
  const all = (name: string): readonly string[] => [...unit.matchAll(new RegExp(`^${name}=(.*)$`, "gm"))].map(([, value = ""]) => value);
  const one = (name: string): string => all(name).at(-1) ?? "";

  test("starts the gateway with arguments that it knows, and reloads it with SIGHUP", () => {
    const [program, ...args] = one("ExecStart").split(" ");
    expect(program).toBe("/usr/local/bin/sluice");
    expect(started(args)).toMatchObject({ command: "start", config: "/etc/sluice/sluice.yaml" });
    expect(one("ExecReload")).toBe("/bin/kill -HUP $MAINPID");
    expect(one("Type")).toBe("exec");
  });

  test("waits longer for it to end than that lets its calls finish, and does not end its engines before", async () => {
    const loaded = await loadConfig({ path: null, text: "channels: []", env: {}, nofile: 65_536 });
    const { lingerMs = 0, drainMs = 0 } = loaded.ok ? loaded.settings.service : {};
    expect(drainMs).toBeGreaterThan(0);
    expect(Number(one("TimeoutStopSec")) * 1000).toBeGreaterThanOrEqual(lingerMs + drainMs + closingMs);
    expect(one("KillMode")).toBe("mixed");
  });

  test("does not try again what only the operator can fix, and never gives up on what comes back by itself", () => {
    expect(one("Restart")).toBe("on-failure");
    expect(one("RestartPreventExitStatus").split(" ").map(Number)).toEqual([usageExitCode, configExitCode]);
    // Such as a PostgreSQL that is late at boot, without which the gateway ends with 1.
    expect([one("StartLimitIntervalSec"), Number(one("RestartSec")) >= 1]).toEqual(["0", true]);
    // The gateway replaces workers and engines that were killed; systemd would stop the others too.
    expect(one("OOMPolicy")).toBe("continue");
  });

  test("allows it to compile at run time and to write to its own folder, and little else", () => {
    const [, service = ""] = unit.split(/^\[\w+\]$/m).slice(1);
    const directives = [...service.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = "", value = ""]) => `${name}=${value}`);
    // How it is started, told of secrets, and ended: the other tests are about these.
    const others = /^(Type|Exec\w+|Environment\w*|LoadCredential|Restart\w*|OOMPolicy|KillMode|Timeout\w+)=/;
    // MemoryDenyWriteExecute and ReadWritePaths are not among them.
    expect(directives.filter((line) => !others.test(line))).toEqual([
      "User=sluice",
      "Group=sluice",
      "StateDirectory=sluice",
      "StateDirectoryMode=0700",
      "WorkingDirectory=%S/sluice",
      "RuntimeDirectory=sluice",
      "LimitNOFILE=65536",
      "LimitCORE=0",
      "TasksMax=4096",
      "UMask=0077",
      "NoNewPrivileges=yes",
      "CapabilityBoundingSet=",
      "AmbientCapabilities=",
      "ProtectSystem=strict",
      "ProtectHome=yes",
      "ProtectClock=yes",
      "ProtectControlGroups=yes",
      "ProtectHostname=yes",
      "ProtectKernelLogs=yes",
      "ProtectKernelModules=yes",
      "ProtectKernelTunables=yes",
      "ProtectProc=invisible",
      "PrivateTmp=yes",
      "PrivateDevices=yes",
      "PrivateUsers=yes",
      "RemoveIPC=yes",
      "LockPersonality=yes",
      "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
      "RestrictNamespaces=yes",
      "RestrictRealtime=yes",
      "RestrictSUIDSGID=yes",
      "SystemCallArchitectures=native",
      "SystemCallFilter=@system-service",
      "SystemCallFilter=~@privileged",
      "SystemCallErrorNumber=EPERM",
    ]);
    expect(readFileSync(join(deploy, "systemd/sluice.sysusers.conf"), "utf8")).toMatch(new RegExp(`^u ${one("User")} `, "m"));
  });

  test("may create the socket that the guide and the proxies name", () => {
    const named = ["docs/edge.md", "deploy/nginx/sluice.conf", "deploy/caddy/Caddyfile", "deploy/envoy/envoy.yaml"].flatMap(
      (path) => readFileSync(join(root, path), "utf8").match(/\/run\/[\w./-]+\.sock/g) ?? [],
    );
    expect(named.length).toBeGreaterThan(3);
    expect([...new Set(named)]).toEqual([`/run/${one("RuntimeDirectory")}/sluice.sock`]);
  });

  test("hands secrets over as files, through variables that the gateway reads", () => {
    const loaded = all("LoadCredential").map((credential) => credential.split(":")[0] ?? "");
    const variables = all("Environment").map((pair) => pair.split("=") as [string, string]);
    expect(loaded.length).toBeGreaterThan(0);
    for (const [name, value] of variables) {
      expect(known).toContain(name);
      expect(loaded).toContain(value.replace("%d/", ""));
    }
  });

  const analyze = toolNamed("systemd-analyze");
  test.skipIf(analyze === null)("is valid, and less exposed than most", () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
    const copy = join(folder, "sluice.service");
    // The program is not installed here, which would be the only complaint.
    writeFileSync(copy, unit.replace("ExecStart=/usr/local/bin/sluice", "ExecStart=/bin/true"));
    const verified = checked([analyze ?? "", "verify", "--man=no", copy]);
    const security = checked([analyze ?? "", "security", "--offline=yes", "--no-pager", "--threshold=20", copy]);
    rmSync(folder, { recursive: true });
    expect(verified).toEqual({ code: 0, said: "" });
    expect([security.code, security.said]).toEqual([0, expect.stringContaining("Overall exposure level")]);
  });
});
