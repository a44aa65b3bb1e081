import { optionsOf, presets } from "../src/dialects/presets.ts";
import { makeSessionCookie } from "../src/admin/login/cookie.ts";
import { LoginGuard } from "../src/admin/login/login-guard.ts";
import { loginRoutes } from "../src/admin/routes/login-routes.ts";
import { openApiRoute } from "../src/admin/openapi.ts";
import type { AdminRoute } from "../src/admin/route.ts";
import { resourceRoutes } from "../src/admin/routes/routes.ts";
import type { Preset } from "../src/dialects/presets.ts";
import { clientKeyVariable } from "../src/config/environment.ts";
import { notesOf, shapeOf } from "../src/config/field.ts";
import { fileSchema } from "../src/config/schema.ts";
import { dependenciesPage } from "./dependencies.ts";
import { mapPage } from "./map.ts";

/**
 * Writes docs/configuration.md from the schema and the presets, the table of routes in docs/admin.md from the routes,
 * docs/dependencies.md from the locks and what scripts/dependencies.ts says of them, and docs/map.md from the imports.
 * Tests fail when the pages are not what this makes.
 */

const page = new URL("../docs/configuration.md", import.meta.url);
const adminPage = new URL("../docs/admin.md", import.meta.url);
const dependencyPage = new URL("../docs/dependencies.md", import.meta.url);
const foldersPage = new URL("../docs/map.md", import.meta.url);
const example = new URL("../examples/sluice.yaml", import.meta.url);

export async function configurationPage(): Promise<string> {
  return (
    [
      intro,
      "## Example\n\n```yaml\n" + (await Bun.file(example).text()).trimEnd() + "\n```",
      "## Settings",
      ...sections("", fileSchema),
      providersSection(),
      environmentSection(),
    ].join("\n\n") + "\n"
  );
}

type Schema = Parameters<typeof shapeOf>[0];

const intro = `# Configuration

<!-- Written by scripts/docs.ts from the schema in src/config/schema.ts. Change it there. -->

Sluice reads one YAML file, named by \`--config FILE\` or by the variable \`SLUICE_CONFIG\`. Without a file it looks for
provider keys in the environment (see [Without a file](#without-a-file)). \`sluice check FILE\` says what is wrong with a
file without starting anything.

- An unknown setting, a missing variable or a bad value stops the start and names the line, the reason and how to fix it.
- A running process reads the file again when it changes and on SIGHUP. A file with mistakes changes nothing: the old
  configuration stays, and the log says why. Running calls finish with the configuration they began with. Only a key that
  is taken out of the file is revoked: its running calls end.
- The file may have up to 1 MiB. Larger fleets live in the store, which takes millions of keys: see [keys.md](keys.md) for keys and
  [admin.md](admin.md) for channels. Calls are served while the file is read again; with a file of the largest size they may wait for
  a few hundred milliseconds once.
- What concerns the process itself takes effect at the next start: \`listen\`, \`admin\`, \`admin_names\`, \`data_dir\`,
  \`store\`, \`state\`, \`state_loss\`, \`receipts\` and \`log\`.
- Keys, channels and prices can also be made while it runs and are then kept in the store: see [keys.md](keys.md),
  [admin.md](admin.md) and [prices.md](prices.md). Where the file and the store use the same name, the file counts.

**Variables.** \`\${NAME}\` in a value is replaced by that environment variable, \`\${NAME:-default}\` falls back when it is
unset or empty, and \`$\${\` stands for a literal \`\${\`. A variable that is not set and has no default is an error,
and so is \`$NAME\` without braces. Keep keys in variables or files, not in the configuration. A file that is empty is refused:
on a reload the configuration that is there stays.

**Durations** are a number and a unit: \`300ms\`, \`5s\`, \`30m\`, \`1h\`. **Sizes** likewise: \`64MiB\`, \`25MB\`. \`off\` turns
off what can be turned off.

**Addresses** of channels may be private or on this machine. They must be http or https, without user name, password,
query or fragment. The metadata addresses of clouds and link-local networks are refused in every spelling.`;

function* sections(path: string, schema: Schema): Generator<string> {
  const shape = shapeOf(schema);
  if (shape === null) return;
  const entries = Object.entries(shape);
  const about = notesOf(schema)?.about;
  if (path !== "") yield `### \`${path}\``;
  if (about !== undefined) yield about;
  const rows = entries.map(([name, inner]) => {
    const notes = notesOf(inner);
    if (notes === null) throw new Error(`Every setting was believed to have notes; ${path}.${name} has none.`);
    const grouped = shapeOf(inner) !== null;
    const standard = notes.required ? "**required**" : (notes.default ?? "");
    const type = grouped ? `${notes.type}, see below` : notes.type;
    return `| \`${name}\` | ${cell(type)} | ${cell(standard)} | ${cell(notes.about)} |`;
  });
  yield ["| setting | value | default | |", "|---|---|---|---|", ...rows].join("\n");
  for (const [name, inner] of entries) {
    const many = notesOf(inner)?.type === "list of groups";
    yield* sections(`${path === "" ? "" : `${path}.`}${name}${many ? "[]" : ""}`, inner);
  }
}

function providersSection(): string {
  const rows = presets.map((preset) =>
    [
      `\`${preset.name}\``,
      cell(`\`${preset.baseUrl}\``),
      keyCell(preset),
      preset.operations.join(", "),
      preset.modelsPath === null ? "no" : "yes",
      cell(remarks(preset)),
    ].join(" | "),
  );
  return `## Providers

\`provider: NAME\` in a channel brings all of this. Any other upstream that speaks the OpenAI API needs only a \`base_url\`.
Where models cannot be discovered, name them under \`models\`.

| provider | address | key | operations | models discovered | remarks |
|---|---|---|---|---|---|
${rows.map((row) => `| ${row} |`).join("\n")}`;
}

function keyCell(preset: Preset): string {
  if (!preset.needsKey) return "none, unless you set one";
  return preset.authHeader === "authorization" ? "bearer" : `\`${preset.authHeader}\` header`;
}

function remarks(preset: Preset): string {
  const needs = optionsOf(preset).map((option) => `needs \`${option}\``);
  const dated = preset.dated === null ? [] : [`with \`api_version\`: \`${preset.dated.baseUrl}${preset.dated.paths.chatPath}\``];
  const quirks = preset.quirks.streamOptions ? [] : ["`stream_options` is not sent"];
  const forwarded =
    preset.forwardHeaders.length === 0 ? [] : [`passes on ${preset.forwardHeaders.map((name) => `\`${name}\``).join(", ")}`];
  return [...needs, ...dated, ...quirks, ...forwarded, preset.remark ?? [], preset.warning ?? []].flat().join("; ");
}

function environmentSection(): string {
  const rows = presets
    .filter(({ environment }) => environment.key.length + environment.address.length > 0)
    .map(({ name, environment }) => {
      const parts = [environment.key, environment.address, environment.region].filter((names) => names.length > 0);
      return `| \`${name}\` | ${parts.map((names) => names.map((variable) => `\`${variable}\``).join(" or ")).join(" and ")} |`;
    });
  return `## Without a file

Each provider whose variables are set becomes a channel of that name in tier 1. Its models are discovered; a provider
without a list of models takes any name that no other channel lists.

| channel | variables |
|---|---|
${rows.join("\n")}

\`${clientKeyVariable}\` sets the one client key; without it, one is made at the start and printed once.`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

const tableBegins = "<!-- Written by scripts/docs.ts from the routes. Change them in src/admin. -->\n";
const tableEnds = "<!-- The end of what scripts/docs.ts writes. -->";

/** A page with its table of routes as the routes are now. */
export function withRoutes(text: string): string {
  const begins = text.indexOf(tableBegins);
  const ends = text.indexOf(tableEnds);
  if (begins < 0 || ends < begins) throw new Error("The page was believed to mark where its table of routes goes, and does not.");
  const rows = adminRoutes().map(({ method, path, access, summary }) => `| ${method} | \`${path}\` | ${access} | ${cell(summary)} |`);
  const table = ["", "| method | path | who | what |", "|---|---|---|---|", ...rows, "", ""].join("\n");
  return text.slice(0, begins + tableBegins.length) + table + text.slice(ends);
}

/** Everything that the listener serves, in the order of its paths. */
export function adminRoutes(): readonly AdminRoute[] {
  const door = { cookie: makeSessionCookie(false), guard: new LoginGuard(() => 0), onBootstrapped: () => Promise.resolve() };
  const routes = [...loginRoutes(door), ...resourceRoutes, openApiRoute(() => [])];
  return routes.toSorted((one, other) => (one.path < other.path ? -1 : one.path > other.path ? 1 : 0));
}

if (import.meta.main) {
  await Bun.write(page, await configurationPage());
  await Bun.write(adminPage, withRoutes(await Bun.file(adminPage).text()));
  await Bun.write(dependencyPage, dependenciesPage());
  await Bun.write(foldersPage, mapPage());
}
