import { count } from "../check.ts";
import { askHealth } from "../health.ts";
import { listenProblem, type ListenPlace } from "../process/listen-problem.ts";
import type { Terminal } from "../terminal.ts";
import type { DoctorRequest } from "./arguments.ts";
import { doubtful, failed, fine, renderDiagnoses, type Diagnosis } from "./diagnosis.ts";
import { machineDiagnoses, type MachineReport } from "./machine.ts";
import { fewAtATime, probeUpstream, type ProbePorts } from "./probe-upstream.ts";
import { clockDiagnosis, upstreamAddresses, upstreamDiagnosis } from "./upstreams.ts";

export interface DoctorContext {
  readonly terminal: Terminal;
  readonly configuration: ConfigurationReport;
  readonly machine: () => Promise<MachineReport>;
  /** The error of listening on an address; null if it works. */
  readonly listenError: (place: ListenPlace) => unknown;
  readonly probe: ProbePorts;
  readonly store: () => Promise<Diagnosis>;
  /** Null if limits are not shared. */
  readonly state: () => Promise<Diagnosis | null>;
}

/** The configuration as it was read. */
export interface ConfigurationReport {
  /** Such as a file name. */
  readonly name: string;
  /** In words, each with its fix on the lines after. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  /** Null if it cannot be used. */
  readonly settings: DoctorSettings | null;
}

export interface DoctorSettings {
  readonly listen: ListenPlace;
  readonly admin: ListenPlace | null;
  readonly hasTls: boolean;
  readonly channels: readonly { readonly name: string; readonly baseUrl: string; readonly proxy: string | null }[];
}

/** Carries out `sluice doctor` and returns the exit code. */
export async function runDoctor({ json, offline }: DoctorRequest, context: DoctorContext): Promise<number> {
  const { terminal, configuration } = context;
  const all: Diagnosis[] = [...machineDiagnoses(await context.machine()), ...ofConfiguration(configuration)];
  const { settings } = configuration;
  if (settings !== null) {
    all.push(...(await ofPorts(settings, context)));
    terminal.progress("Asking the store …");
    all.push(await context.store());
    const state = await context.state();
    if (state !== null) all.push(state);
    all.push(...(offline ? [] : await ofUpstreams(settings, context)));
    terminal.progress(null);
  }
  const { text, exitCode } = renderDiagnoses(all, json);
  terminal.print(text);
  return exitCode;
}

function ofConfiguration({ name, problems, warnings, settings }: ConfigurationReport): readonly Diagnosis[] {
  const split = (text: string): readonly [string, string] => {
    const [message = "", ...fix] = text.split("\n");
    return [message, fix.join("\n").trim()];
  };
  return [
    ...problems.slice(0, shownMax).map((text) => failed("configuration", ...split(text))),
    ...warnings.slice(0, shownMax).map((text) => doubtful("configuration", ...split(text))),
    ...(settings === null ? [] : [fine("configuration", usable(name, settings.channels.length))]),
  ];
}

function usable(name: string, channels: number): string {
  if (channels === 0) return `${name} can be used. It has no channels, so that only the models of this machine answer`;
  return `${name} can be used, with ${count(channels, "channel")}`;
}

const shownMax = 50;

async function ofPorts({ listen, admin, hasTls }: DoctorSettings, { listenError, probe }: DoctorContext): Promise<readonly Diagnosis[]> {
  const health = await askHealth(addressOf(listen, hasTls), probe.fetch, healthMs);
  // A gateway that runs holds its ports, as it should.
  if (health.exitCode === 0) return [fine("port", `A gateway runs: ${health.text}`)];
  return [
    ...(listen.path === undefined ? [ofPort(listen, "--listen", listenError)] : []),
    ...(admin === null ? [] : [ofPort(admin, "--admin", listenError)]),
  ];
}

const healthMs = 2_000;

function ofPort(place: ListenPlace, option: string, listenError: DoctorContext["listenError"]): Diagnosis {
  const error = listenError(place);
  if (error === null) return fine("port", `${place.host}:${place.port} is free`);
  // It has its fix in its second sentence.
  const [message = "", ...fix] = listenProblem(error, place, option).split(/(?<=\.) /);
  return failed("port", message, fix.join(" "));
}

function addressOf({ host, port, path }: ListenPlace, hasTls: boolean): string {
  if (path !== undefined) return `unix:${path}`;
  const near = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `${hasTls ? "https" : "http"}://${near.includes(":") ? `[${near}]` : near}:${port}`;
}

async function ofUpstreams({ channels }: DoctorSettings, { probe, terminal }: DoctorContext): Promise<readonly Diagnosis[]> {
  const all = upstreamAddresses(channels);
  const addresses = all.slice(0, addressesMax);
  terminal.progress(`Asking ${addresses.length} upstreams …`);
  const probes = await fewAtATime(addresses, (address) => probeUpstream(address, probe));
  const clock = clockDiagnosis(probes);
  return [
    ...addresses.map((address, at) => upstreamDiagnosis(address, probes[at] ?? { kind: "failed", code: "unknown" })),
    ...(all.length > addresses.length
      ? [
          doubtful(
            "channel",
            `Only the first ${addressesMax} of ${all.length} addresses were asked`,
            "Try others with: sluice channels test NAME",
          ),
        ]
      : []),
    ...(clock === null ? [] : [clock]),
  ];
}

const addressesMax = 100;
