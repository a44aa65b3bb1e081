import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Dialect } from "../../src/dialects/dialect.ts";
import { dialects } from "../../src/dialects/index.ts";
import type { Surface } from "../../src/operations/conversation/surface.ts";
import { chatSurface, generateAnswers, messagesSurface, readGenerateRequest, responsesSurface } from "../../src/surfaces/index.ts";
import type { SeenAnswer } from "./clients.ts";
import { openUpstream, Pair, type CellOutcome, type ChannelSettings } from "./pair.ts";
import type { TrafficItem } from "./traffic.ts";

/** One row of the table: a surface over a dialect. */
export interface CompatibilityRow {
  readonly surface: string;
  readonly dialect: string;
  readonly cells: Readonly<Record<string, CellOutcome>>;
  /** Why cells are `lost`. */
  readonly trouble: readonly string[];
  /** What was sent to the upstream and told to the client, for the types of the providers. */
  readonly traffic: readonly TrafficItem[];
}

/** Its requests say in their path what those of others say in their body. */
const generateSurface: Surface = {
  ...generateAnswers,
  parse: (body) => {
    const { stream = false, ...rest } = JSON.parse(new TextDecoder().decode(body)) as { readonly stream?: boolean };
    return readGenerateRequest(new TextEncoder().encode(JSON.stringify(rest)), { model: "m", stream, listed: false });
  },
};

const surfaces: readonly Surface[] = [chatSurface, messagesSurface, responsesSurface, generateSurface];
export const chatDialects: readonly Dialect[] = [...dialects.values()].filter(({ chat }) => chat !== undefined);

export function fixtureFolder(dialect: Dialect): string {
  return join(import.meta.dir, "../../test/fixtures/dialects", dialect.name);
}

/** Plays every cell of every pair. */
export async function compatibilityRows(): Promise<readonly CompatibilityRow[]> {
  const rows: CompatibilityRow[] = [];
  for (const dialect of chatDialects) rows.push(...(await compatibilityRowsOf(dialect)));
  return rows;
}

/** Plays every cell over one dialect. `settings` are those of another channel than that of its fixtures. */
export async function compatibilityRowsOf(dialect: Dialect, settings?: ChannelSettings): Promise<readonly CompatibilityRow[]> {
  const folder = fixtureFolder(dialect);
  if (!existsSync(folder)) throw new Error(`${dialect.name} has no fixtures: ${folder}`);
  const upstream = await openUpstream(dialect, folder, settings);
  const rows: CompatibilityRow[] = [];
  for (const surface of surfaces) {
    const pair = new Pair(surface, upstream);
    const cells: Record<string, CellOutcome> = {};
    for (const [name, play] of Object.entries(columns)) cells[name] = await play(pair);
    await pair.settings();
    rows.push({ surface: surface.name, dialect: dialect.name, cells, trouble: pair.trouble, traffic: pair.traffic.items });
  }
  return rows;
}

/** The worse of a request and its answer. */
function both(request: CellOutcome, answer: CellOutcome): CellOutcome {
  if (request === "lost" || answer === "lost") return "lost";
  return request === "yes" || request === "as it is" ? (answer === "none" ? request : answer) : request;
}

const says =
  (text: string, finish: SeenAnswer["finish"]) =>
  (seen: SeenAnswer): boolean =>
    seen.text === text && seen.finish === finish;

function callsBoth({ calls, finish }: SeenAnswer): boolean {
  const [first, second] = calls;
  const named = first?.name === "read_file" && second?.name === "list_files" && first.id !== second.id;
  const given = JSON.stringify([first?.arguments, second?.arguments]);
  return calls.length === 2 && finish === "tool_calls" && named && given === '[{"path":"a.txt"},{"path":"b"}]';
}

const columns: Readonly<Record<string, (pair: Pair) => Promise<CellOutcome> | CellOutcome>> = {
  text: async (pair) => both(await pair.request("text"), await pair.answer("text", "text", says("ANSWER-TEXT", "stop"))),
  "system in the middle": (pair) => pair.request("system"),
  "parallel tools": async (pair) => both(await pair.request("tools"), await pair.answer("tools", "tools", callsBoth)),
  "image in a tool result": (pair) => pair.request("toolImage"),
  image: (pair) => pair.request("image"),
  file: (pair) => pair.request("file"),
  "reasoning, five turns": (pair) => pair.loop("reasoning", ["SIGNATURE"]),
  "structured output": async (pair) =>
    both(
      await pair.request("schema"),
      await pair.answer("structured", "schema", ({ text }) => JSON.stringify(JSON.parse(text)) === '{"CITY-PROPERTY":"Bern"}'),
    ),
  refusal: (pair) => pair.answer("refusal", "text", ({ finish }) => finish === "content_filter"),
  "length stop": (pair) => pair.answer("length", "text", says("ANSWER-TEXT", "length")),
  usage: (pair) => pair.usage(),
  errors: (pair) => pair.errors(),
  "cut at every event": async (pair) => both(await pair.cut("text", "text"), await pair.cut("tools", "tools")),
};

export function compatibilityPage(rows: readonly CompatibilityRow[]): string {
  const names = Object.keys(columns);
  const tables = surfaces.map(({ name }) => {
    const own = rows.filter(({ surface }) => surface === name);
    return [
      `## Clients of \`${name}\``,
      "",
      `| | ${own.map(({ dialect }) => `\`${dialect}\``).join(" | ")} |`,
      `|---${"|---".repeat(own.length)}|`,
      ...names.map((cell) => `| ${cell} | ${own.map(({ cells }) => shown[cells[cell]!]).join(" | ")} |`),
    ].join("\n");
  });
  return `${[intro, ...tables].join("\n\n")}\n`;
}

const shown: Readonly<Record<CellOutcome, string>> = {
  yes: "yes",
  "as it is": "as it is",
  dropped: "dropped",
  refused: "refused",
  moved: "moved",
  none: "–",
  lost: "**lost**",
};

const intro = `# What works over what

<!-- Written by scripts/docs.ts, which plays each cell. test/fixtures/dialects holds the answers of the providers. -->

Each cell was played without a network: a client's request was written for the upstream, an answer of its provider, whole and
as a stream, was read, and what the client gets was compared with what the upstream said. One table for each API that
clients speak; one column for each API of upstreams.

- **as it is**: both speak the same API, and bytes pass.
- **yes**: translated, with nothing lost.
- **moved**: a system message stands elsewhere, because the upstream has one place for all of them.
- **dropped**: not carried, and named in \`x-sluice-dropped-params\`.
- **refused**: the channel is left out, and another one that can is asked; without one, the client is told.
- **–**: one of the two APIs has no such thing.

*Reasoning, five turns*: in a loop with a tool, the upstream gets its own signed reasoning back in each turn, and each
request begins with the bytes of the one before. *Cut at every event*: wherever the upstream's stream breaks off, the client
gets an error, never an end. *Usage*: each figure that both APIs have a place for (read from a cache, written to one for five
minutes or an hour, reasoning, sound) is the upstream's. *Errors*: each refusal that the provider documents, with its wait, and its
error inside of a stream, have their class, and the client reads them in its own API.`;
