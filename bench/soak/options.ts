import { parseArgs } from "node:util";

export interface SoakOptions {
  readonly minutes: number;
  /** Calls a second. */
  readonly rate: number;
  /** Of the dice that choose what is called next. */
  readonly seed: number;
  readonly json: boolean;
  readonly store: string;
  readonly state: string;
}

const usage = `Usage: npm run soak -- [options]

Runs a gateway under mixed load and faults, and says whether memory, open files, threads and temporary files stay flat, and whether
the ledger equals the receipts and what the upstream served. The exit code is 1 if not.

  --minutes N        how long (60); below 5 nothing is said about growth
  --rate N           calls a second (100)
  --seed N           of the order of calls (1)
  --store URL        a PostgreSQL database that is empty, in place of SQLite
  --state URL        a Redis, in place of memory
  --json             the result as JSON on standard output; progress stays on standard error`;

export function readSoakOptions(given: readonly string[]): SoakOptions | { readonly refused: string; readonly asked: boolean } {
  try {
    const { values } = parseArgs({
      args: [...given],
      options: {
        minutes: { type: "string" },
        rate: { type: "string" },
        seed: { type: "string" },
        store: { type: "string" },
        state: { type: "string" },
        json: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    if (values.help) return { refused: usage, asked: true };
    return {
      minutes: number("minutes", values.minutes, 60, 24 * 60),
      rate: number("rate", values.rate, 100, 1_000),
      seed: number("seed", values.seed, 1, 2 ** 31),
      json: values.json,
      store: values.store ?? "sqlite",
      state: values.state ?? "memory",
    };
  } catch (error) {
    return { refused: `${error instanceof Error ? error.message : String(error)}\n\n${usage}`, asked: false };
  }
}

function number(name: string, given: string | undefined, otherwise: number, max: number): number {
  if (given === undefined) return otherwise;
  const value = Number(given);
  if (given.trim() === "" || !(value > 0) || value > max)
    throw new Error(`--${name} takes a number above 0 and up to ${max}, not "${given}".`);
  return value;
}
