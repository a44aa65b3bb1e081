import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { shown } from "../shown-text.ts";
import { table } from "../table.ts";
import type { Terminal } from "../terminal.ts";
import type { ChannelsRequest } from "./arguments.ts";
import { testCalls, type TestCall, type TestTarget } from "../../manage/channel-test/test-calls.ts";

/** A gateway that was started for the test, with one channel. */
export interface TestGateway extends TestTarget {
  readonly stop: () => Promise<void>;
}

export interface ChannelsContext {
  /** The names of all channels of the configuration. */
  readonly names: readonly string[];
  /** The known name that is most similar to a mistyped one. */
  readonly nearest: (word: string, known: readonly string[]) => string | null;
  /** Starts a gateway with this channel alone, without touching the data of another one. */
  readonly start: (name: string) => Promise<TestGateway>;
}

/** Carries out `sluice channels test` and returns the exit code: 0 only if every call succeeded. */
export async function runChannels(request: ChannelsRequest, context: ChannelsContext): Promise<number> {
  const { name, model, operations, json } = request;
  if (!context.names.includes(name)) {
    const similar = context.nearest(name, context.names);
    console.error(`There is no channel "${shown(name)}" in the configuration.${similar === null ? "" : ` Did you mean "${similar}"?`}`);
    if (context.names.length > 0) console.error(`It has: ${context.names.slice(0, 20).join(", ")}`);
    return 1;
  }
  const gateway = await context.start(name);
  const calls: TestCall[] = [];
  try {
    for await (const call of testCalls(gateway, { model, operations })) {
      calls.push(call);
      if (!json && process.stderr.isTTY) console.error(`${call.operation}: ${call.ok ? "ok" : "failed"} after ${call.tookMs} ms`);
    }
  } finally {
    await gateway.stop();
  }
  return reportTest(request, calls, { print: console.log, say: console.error });
}

/** Shows what came of the calls, and returns the exit code. */
export async function reportTest(
  { name, audio, json }: ChannelsRequest,
  calls: readonly TestCall[],
  terminal: Pick<Terminal, "print" | "say">,
): Promise<number> {
  const spoken = calls.find((call) => call.audio !== null)?.audio ?? null;
  if (audio !== null && spoken !== null) {
    await writeFile(audio, spoken.bytes);
    terminal.say(`What it spoke is in ${resolve(audio)}.`);
  }
  if (json) terminal.print(JSON.stringify({ channel: name, calls: calls.map((call) => ({ ...call, audio: undefined })) }, null, 2));
  else terminal.print(calls.length === 0 ? nothingToTry : table(columns, calls));
  return calls.length > 0 && calls.every(({ ok }) => ok) ? 0 : 1;
}

const nothingToTry = `No model of this channel is known: its list could not be read, or it takes any model.
Name one with --model, such as: sluice channels test NAME --model MODEL --operations chat`;

const columns = [
  { title: "OPERATION", cell: ({ operation }: TestCall) => operation },
  { title: "MODEL", cell: ({ model }: TestCall) => model ?? "-" },
  { title: "RESULT", cell: ({ ok, status }: TestCall) => (ok ? "ok" : `failed${status === null ? "" : ` (${status})`}`) },
  { title: "MS", cell: ({ tookMs }: TestCall) => String(tookMs), right: true },
  { title: "", cell: ({ outcome }: TestCall) => outcome },
];
