import { readdirSync } from "node:fs";
import { join } from "node:path";
import { importedSources, layers, root, sources } from "./source-tree.ts";

/**
 * Draws docs/map.md: the folders of `src/` in the order of their imports. `scripts/docs.ts` writes the page, and
 * test/project/map.test.ts fails when the imports have changed and the page has not.
 */

/** What each folder is for, in one line. A folder without one cannot be drawn. */
const purposes: Readonly<Record<string, string>> = {
  "main.ts": "the command line's entry: reads arguments, runs a command",
  app: "starts the parts and hands each what it needs; decides nothing",
  lab: "faults to watch: scenarios, upstreams that follow them, and a gateway of their own",
  http: "the endpoints of the data plane: authentication, bodies, forms, errors",
  console: "the web console: what browsers run, on the admin API alone",
  admin: "the admin API: login, routes, views; serves the console",
  cli: "the commands of `sluice`, on the store itself or on a gateway elsewhere",
  manage: "what an operator can do: keys, channels, prices, accounts, backups",
  net: "HTTP/1.1 in bytes: server and client connections, parsers, pools",
  store: "SQLite and PostgreSQL: tables, migrations, the journal, backups",
  state: "rate limits and budgets, in memory and shared through Redis",
  engines: "the processes of local models and the audio transcoder",
  config: "sluice.yaml: reading, checking, and the snapshot made of it",
  identity: "tokens of other issuers: sign-in by OpenID Connect, JWTs in place of keys",
  telemetry: "the log, metrics, traces and webhooks",
  clock: "timers that many waits share",
  servers: "addresses that name several servers, and the first of them that answers",
  files: "temporary files for bodies that are too large for memory",
  gateway: "one call from admission to settlement",
  surfaces: "what clients speak",
  dialects: "what upstreams speak: requests, answers, streams, errors",
  usage: "tokens, seconds and money: prices, estimates, receipts",
  routing: "which candidate is tried, and what follows a failure",
  keys: "client keys: their form, and what each may reach",
  channels: "what is known of upstreams: channels, voices, health, load",
  limits: "arithmetic of rate limits, budgets, leases and retry budgets",
  operations: "what clients ask for, as data: chats, transcripts, speech; failures; the JSON scanner",
  media: "audio containers: what kind, how long, where they end",
};

const nameWidth = 12;
const width = 100;

export function mapPage(): string {
  return `# Map of the source

<!-- Written by scripts/docs.ts from the imports. Change the order in scripts/source-tree.ts, the descriptions in scripts/map.ts. -->

Each box is a layer of \`src/\`. Imports point downwards only: \`→\` names the folders that a folder imports, \`+\` the
folders inside it. The folders from \`gateway\` down are pure: they use no clock, no socket and no package, and get what
they need through ports (\`src/gateway/ports.ts\`). [life-of-a-request.md](life-of-a-request.md) walks through them in the
order of a call, and [glossary.md](glossary.md) explains the words.

\`\`\`text
${drawing()}
\`\`\`
`;
}

function drawing(): string {
  const rule = "─".repeat(width - 2);
  const boxes = layers.map(({ title, folders }) => {
    const top = `${title} ${"─".repeat(width - title.length - 5)}`;
    return [`├─ ${top}┤`, ...folders.flatMap(folderLines).map((line) => `│ ${line.padEnd(width - 3)}│`)].join("\n");
  });
  return [...boxes, `└${rule}┘`].join("\n").replace("├", "┌").replace("┤", "┐");
}

function folderLines(folder: string): readonly string[] {
  const purpose = purposes[folder];
  if (purpose === undefined) throw new Error(`scripts/map.ts has no description of src/${folder}.`);
  const inside = subfolders(folder);
  const used = imports(folder);
  return [
    `${folder.padEnd(nameWidth)}${purpose}`,
    ...(inside.length === 0 ? [] : wrapped("+ ", inside)),
    ...(used.length === 0 ? [] : wrapped("→ ", used)),
  ];
}

/** The names in lines that fit into the box, below the folder's description. */
function wrapped(mark: string, names: readonly string[]): readonly string[] {
  const indent = " ".repeat(nameWidth);
  const lines: string[] = [];
  for (const name of names) {
    const last = lines.at(-1);
    if (last === undefined) lines.push(`${indent}${mark}${name}`);
    else if (last.length + name.length + 3 <= width - 3) lines[lines.length - 1] = `${last}, ${name}`;
    else lines.splice(-1, 1, `${last},`, `${indent}  ${name}`);
  }
  return lines;
}

function subfolders(folder: string): readonly string[] {
  if (folder.endsWith(".ts")) return [];
  const entries = readdirSync(join(root, "src", folder), { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .toSorted();
}

/** The other folders that a folder imports, in the order of the layers. */
function imports(folder: string): readonly string[] {
  const used = new Set(
    sources.filter((source) => source.folder === folder).flatMap((source) => importedSources(source).map((imported) => imported.folder)),
  );
  return layers.flatMap(({ folders }) => folders).filter((name) => name !== folder && used.has(name));
}
