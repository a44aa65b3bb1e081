import { parseArgs } from "node:util";
import type { GivenPeer } from "./given-peers.ts";

export const scenarioNames = [
  "json",
  "chunk",
  "translate",
  "latency",
  "idle",
  "stalled",
  "storm",
  "failover",
  "start",
  "telemetry",
  "sustained",
  "overload",
  "speech",
  "upload",
  "codecs",
  "engines",
  "keys-limits",
  "receipts",
  "usage",
  "console",
  "watched",
  "many",
  "neighbour",
  "replicas",
  "workers",
  "peers",
  "levels",
  "limits-on",
  "soak",
] as const;
export type ScenarioName = (typeof scenarioNames)[number];

/** Only run where it is asked for by its name: it takes as long as many others together. */
export const longScenario: ScenarioName = "soak";

export interface Options {
  readonly only: readonly ScenarioName[];
  readonly quick: boolean;
  /** How long each measured segment lasts. */
  readonly seconds: number;
  readonly rounds: number;
  readonly holdSeconds: number;
  readonly stallSeconds: number;
  readonly soakSeconds: number;
  readonly idleStreams: number;
  /** Single receipts in the year of traffic; null for as many as are kept by default. */
  readonly receipts: number | null;
  readonly peer: boolean;
  /** Whether PostgreSQL and Redis are started for what limits cost. */
  readonly servers: boolean;
  /** Where the numbers are written; null for bench/results/latest.json. */
  readonly results: string | null;
  /** The programs of other gateways that were given. */
  readonly peers: Readonly<Partial<Record<GivenPeer, string>>>;
  /** Every gateway exports traces and metrics. */
  readonly telemetry: boolean;
  /** For how long it waits for a quiet machine before it begins. */
  readonly quietWithinSeconds: number;
}

export const usage = `npm run bench -- [options]

  --only NAMES       run only these, separated by commas: ${scenarioNames.join(", ")}
  --quick            short segments: does everything work? The numbers mean little
  --seconds N        length of each measured segment (6; the bar asks for 15)
  --rounds N         how often each target has its turn (4)
  --hold N           seconds the idle streams are held (60; the bar asks for 600)
  --stall N          seconds the stalled readers stand still (20; the bar asks for 60)
  --soak N           seconds of the soak, which is only run where it is named (900)
  --streams N        idle streams (9000)
  --receipts N       single receipts in the year of traffic (those of 90 days)
  --without-peer     do not install or start the npm peer
  --without-servers  levels and limits-on without PostgreSQL and Redis
  --results FILE     write the numbers to FILE instead of bench/results/latest.json
  --busbar PATH      the program of another gateway, for the scenario peers; likewise
  --bifrost PATH       (the binary bifrost-http) and
  --litellm PATH       (its command litellm, with the extra "proxy")
  --telemetry        every gateway exports traces and metrics, to a collector of the bench
  --quiet-within N   wait so many seconds for the machine to be quiet before it begins (5)
`;

export function readOptions(arguments_: readonly string[]): Options | { readonly refused: string } {
  try {
    const { values } = parseArgs({
      args: [...arguments_],
      options: {
        only: { type: "string" },
        quick: { type: "boolean", default: false },
        seconds: { type: "string" },
        rounds: { type: "string" },
        hold: { type: "string" },
        stall: { type: "string" },
        soak: { type: "string" },
        streams: { type: "string" },
        receipts: { type: "string" },
        "without-peer": { type: "boolean", default: false },
        "without-servers": { type: "boolean", default: false },
        results: { type: "string" },
        busbar: { type: "string" },
        bifrost: { type: "string" },
        litellm: { type: "string" },
        telemetry: { type: "boolean", default: false },
        "quiet-within": { type: "string" },
        help: { type: "boolean", default: false },
      },
    });
    if (values.help) return { refused: usage };
    const { quick } = values;
    return {
      only: scenarios(values.only),
      quick,
      seconds: positive("seconds", values.seconds, quick ? 2 : 6),
      rounds: positive("rounds", values.rounds, quick ? 2 : 4),
      holdSeconds: positive("hold", values.hold, quick ? 5 : 60),
      stallSeconds: positive("stall", values.stall, quick ? 5 : 20),
      soakSeconds: positive("soak", values.soak, quick ? 60 : 900),
      idleStreams: positive("streams", values.streams, quick ? 1000 : 9000),
      receipts: values.receipts === undefined ? null : positive("receipts", values.receipts, 1),
      peer: !values["without-peer"],
      servers: !values["without-servers"],
      results: values.results ?? null,
      peers: given({ busbar: values.busbar, bifrost: values.bifrost, litellm: values.litellm }),
      telemetry: values.telemetry,
      quietWithinSeconds: positive("quiet-within", values["quiet-within"], 5),
    };
  } catch (error) {
    return { refused: `${error instanceof Error ? error.message : String(error)}\n\n${usage}` };
  }
}

function scenarios(list: string | undefined): readonly ScenarioName[] {
  if (list === undefined) return scenarioNames.filter((name) => name !== longScenario);
  return list.split(",").map((given) => {
    const name = scenarioNames.find((known) => known === given.trim());
    if (name === undefined) throw new Error(`There is no scenario "${given}"; there are ${scenarioNames.join(", ")}.`);
    return name;
  });
}

function given(programs: Readonly<Record<GivenPeer, string | undefined>>): Options["peers"] {
  return Object.fromEntries(Object.entries(programs).filter(([, path]) => path !== undefined));
}

function positive(name: string, given: string | undefined, otherwise: number): number {
  if (given === undefined) return otherwise;
  const value = Number(given);
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} takes a whole number from 1 up, not "${given}".`);
  return value;
}
