import { expect, test } from "bun:test";
import { runDoctor, type DoctorContext } from "../../../src/cli/doctor/command.ts";
import { fine, renderDiagnoses } from "../../../src/cli/doctor/diagnosis.ts";
import { machineDiagnoses, type MachineReport } from "../../../src/cli/doctor/machine.ts";
import { probeUpstream, type ProbePorts } from "../../../src/cli/doctor/probe-upstream.ts";
import { clockDiagnosis, upstreamAddresses, upstreamDiagnosis, type UpstreamProbe } from "../../../src/cli/doctor/upstreams.ts";

const gibi = 1024 ** 3;
const local = { models: ["stories-15m"], missingCodecs: [], onnxProblem: null };
const healthy: MachineReport = {
  bun: "1.4.4",
  bunWanted: "1.4.4",
  openFiles: 65_536,
  memoryBytes: 8 * gibi,
  temporaryProblem: null,
  dataDir: { path: "/data", problem: null, freeBytes: 100 * gibi },
  local,
};

test("a machine with everything is fine in every respect", () => {
  expect(machineDiagnoses(healthy).filter(({ status, fix }) => status !== "ok" || fix !== null)).toEqual([]);
});

test("an executable file is not told to install models that it cannot run", () => {
  const told = machineDiagnoses({ ...healthy, local: null });
  expect(told.filter(({ status }) => status !== "ok")).toEqual([]);
  expect(told.map(({ message }) => message).join("\n")).toContain("neither models nor codecs");
});

test.each([
  ["runtime", { bun: "1.3.0" }, "warn", "bin/sluice"],
  ["open_files", { openFiles: 1024 }, "warn", "ulimit -n 65536"],
  ["open_files", { openFiles: 64 }, "fail", "LimitNOFILE"],
  ["memory", { memoryBytes: gibi / 4 }, "warn", "memory.max"],
  ["memory", { memoryBytes: gibi / 16 }, "fail", "container"],
  ["temporary", { temporaryProblem: "it is not writable\n  set TMPDIR" }, "fail", "set TMPDIR"],
  ["data_dir", { dataDir: { path: "/d", problem: "EACCES", freeBytes: null } }, "fail", "own it"],
  ["disk_space", { dataDir: { path: "/d", problem: null, freeBytes: gibi / 2 } }, "warn", "receipts.keep"],
  ["disk_space", { dataDir: { path: "/d", problem: null, freeBytes: 1000 } }, "fail", "Free some space"],
  ["local_models", { local: { ...local, models: [] } }, "warn", "npm install"],
  ["codecs", { local: { ...local, missingCodecs: ["opusscript"] } }, "warn", "npm install"],
  ["onnx", { local: { ...local, onnxProblem: "no glibc" } }, "warn", "glibc"],
] as const)("what is wrong with %s is told, with its fix", (check, change, status, fix) => {
  const wrong = machineDiagnoses({ ...healthy, ...change }).filter((one) => one.status !== "ok");
  expect(wrong.map((one) => [one.check, one.status])).toEqual([[check, status]]);
  expect(wrong[0]?.fix).toContain(fix);
});

const answered = (skewMs: number): UpstreamProbe => ({ kind: "answered", tookMs: 12, serverMs: 1_000_000, wallMs: 1_000_000 + skewMs });

test("the clock is compared with most upstreams, so that one wrong server does not count", () => {
  expect(clockDiagnosis([])).toBeNull();
  expect(clockDiagnosis([{ kind: "failed", code: "ECONNREFUSED" }])).toBeNull();
  expect(clockDiagnosis([answered(500), answered(400_000), answered(-500)])?.status).toBe("ok");
  expect(clockDiagnosis([answered(60_000)])).toMatchObject({ status: "warn", message: expect.stringContaining("60 s ahead") });
  expect(clockDiagnosis([answered(-600_000)])).toMatchObject({ status: "fail", message: expect.stringContaining("600 s behind") });
});

test("each address is asked once, and local models not at all", () => {
  const channel = (name: string, baseUrl: string, proxy: string | null = null) => ({ name, baseUrl, proxy });
  const addresses = upstreamAddresses([
    channel("a", "https://one.example/v1"),
    channel("b", "https://one.example/v2"),
    channel("c", "https://one.example/v1", "http://proxy.example:3128"),
    channel("d", "engine:chat"),
  ]);
  expect(addresses.map(({ channels }) => channels)).toEqual([["a", "b"], ["c"]]);
});

test.each([
  [{ kind: "unresolved", host: "one.example" }, "cannot be resolved", "resolv.conf"],
  [{ kind: "failed", code: "DEPTH_ZERO_SELF_SIGNED_CERT" }, "certificate", "NODE_EXTRA_CA_CERTS"],
  [{ kind: "failed", code: "TimeoutError" }, "in time", "firewall"],
  [{ kind: "failed", code: "ConnectionRefused" }, "ConnectionRefused", "one.example on 443"],
] as const)("an upstream that cannot be reached is told with its cause: %j", (probe, message, fix) => {
  const diagnosis = upstreamDiagnosis({ baseUrl: "https://one.example/v1", proxy: null, channels: ["a"] }, probe);
  expect(diagnosis).toMatchObject({ status: "fail", message: expect.stringContaining(message), fix: expect.stringContaining(fix) });
});

test("an upstream is asked once, without redirects, through the proxy of its channel, and its answer is not read", async () => {
  const asked: [string, BunFetchRequestInit][] = [];
  let cancelled = false;
  const ports: ProbePorts = {
    fetch: async (url, init) => {
      asked.push([url, init]);
      const body = new ReadableStream({ cancel: () => void (cancelled = true) });
      return new Response(body, { status: 301, headers: { date: new Date(7_000).toUTCString() } });
    },
    resolves: async (host) => host === "proxy.example",
    nowMs: () => asked.length * 40,
    wallMs: () => 9_000,
  };
  const address = { baseUrl: "https://one.example/v1", proxy: "http://proxy.example:3128", channels: ["a"] };
  expect(await probeUpstream(address, ports)).toEqual({ kind: "answered", tookMs: 40, serverMs: 7_000, wallMs: 9_000 });
  expect(asked).toEqual([["https://one.example/v1", expect.objectContaining({ redirect: "manual", proxy: "http://proxy.example:3128" })]]);
  expect([asked[0]?.[1].headers, asked[0]?.[1].signal instanceof AbortSignal, cancelled]).toEqual([undefined, true, true]);
  // The name of the host is the proxy's to resolve; without one it is ours.
  expect(await probeUpstream({ ...address, proxy: null }, ports)).toEqual({ kind: "unresolved", host: "one.example" });
  const refused = { ...ports, fetch: () => Promise.reject(Object.assign(new Error("no"), { code: "ECONNREFUSED" })) };
  expect(await probeUpstream(address, refused)).toEqual({ kind: "failed", code: "ECONNREFUSED" });
  const late = { ...ports, fetch: () => Promise.reject(new DOMException("late", "TimeoutError")) };
  expect(await probeUpstream(address, late)).toEqual({ kind: "failed", code: "TimeoutError" });
});

interface Scene {
  readonly context: DoctorContext;
  readonly printed: string[];
}

/** A gateway that does not run, with one channel. */
function scene(given: Partial<DoctorContext>): Scene {
  const printed: string[] = [];
  const context: DoctorContext = {
    terminal: {
      isInteractive: false,
      print: (text) => void printed.push(text),
      say: () => {},
      progress: () => {},
      confirm: async () => false,
      ask: async () => "",
      secret: async () => "",
    },
    configuration: {
      name: "sluice.yaml",
      problems: [],
      warnings: [],
      settings: {
        listen: { host: "127.0.0.1", port: 4400 },
        admin: { host: "127.0.0.1", port: 4401 },
        hasTls: false,
        channels: [{ name: "a", baseUrl: "https://one.example/v1", proxy: null }],
      },
    },
    machine: async () => healthy,
    listenError: () => null,
    probe: {
      fetch: async (url) => {
        if (url.includes("/readyz")) throw new Error("nobody is there");
        return new Response("", { status: 404, headers: { date: new Date(5_000).toUTCString() } });
      },
      resolves: async () => true,
      nowMs: () => 0,
      wallMs: () => 5_000,
    },
    store: async () => fine("store", "it is there"),
    state: async () => null,
    ...given,
  };
  return { context, printed };
}

const checksOf = ({ printed }: Scene): Readonly<Record<string, string>> => {
  const { checks } = JSON.parse(printed.join("")) as { readonly checks: readonly { readonly check: string; readonly status: string }[] };
  return Object.fromEntries(checks.map(({ check, status }) => [check, status]));
};

test("all that is right gives the exit code 0; an upstream that answers 404 without a key is reachable", async () => {
  const here = scene({});
  expect(await runDoctor({ json: true, offline: false }, here.context)).toBe(0);
  expect(checksOf(here)).toMatchObject({ configuration: "ok", port: "ok", store: "ok", channel: "ok", clock: "ok" });
});

test("offline, no upstream is asked", async () => {
  const here = scene({});
  expect(await runDoctor({ json: true, offline: true }, here.context)).toBe(0);
  expect(checksOf(here)).not.toHaveProperty("channel");
});

test("a port that another program uses is a failure, and that of a running gateway is not", async () => {
  const listenError = (): unknown => ({ code: "EADDRINUSE" });
  const taken = scene({ listenError });
  expect(await runDoctor({ json: true, offline: true }, taken.context)).toBe(1);
  expect(checksOf(taken)).toMatchObject({ port: "fail" });
  const running = scene({ listenError, probe: { ...taken.context.probe, fetch: async () => new Response("") } });
  expect(await runDoctor({ json: true, offline: true }, running.context)).toBe(0);
});

test("with a configuration that cannot be used, the machine is still looked at", async () => {
  const here = scene({ configuration: { name: "x", problems: ["x:1: wrong\n  do this"], warnings: [], settings: null } });
  expect(await runDoctor({ json: false, offline: false }, here.context)).toBe(1);
  expect(here.printed.join("\n")).toMatch(
    /ok {4}open_files[^]*fail {2}configuration {2}x:1: wrong\n +→ do this\n\n1 problem to fix, 0 warnings\./,
  );
});

test("what a diagnosis quotes cannot control the terminal", () => {
  expect(renderDiagnoses([fine("store", "a\u001B[31mb")], false).text).not.toContain("\u001B");
});

test.each([
  [0, "sluice.yaml can be used. It has no channels, so that only the models of this machine answer"],
  [1, "sluice.yaml can be used, with 1 channel"],
  [2, "sluice.yaml can be used, with 2 channels"],
])("a configuration with %d channels is described as such", async (channels, message) => {
  const { context } = scene({});
  const all = Array.from({ length: channels }, (_, at) => ({ name: `${at}`, baseUrl: `https://${at}.example/v1`, proxy: null }));
  const settings = { ...context.configuration.settings!, channels: all };
  const described = scene({ configuration: { ...context.configuration, settings } });
  await runDoctor({ json: false, offline: true }, described.context);
  expect(described.printed.join("")).toContain(`${message}\n`);
});
