import { optionsOf, presets, type Preset } from "../src/dialects/presets.ts";
import { makeSessionCookie } from "../src/admin/login/cookie.ts";
import { LoginGuard } from "../src/admin/login/login-guard.ts";
import { loginRoutes } from "../src/admin/routes/login-routes.ts";
import { openApiRoute } from "../src/admin/openapi.ts";
import type { AdminRoute } from "../src/admin/route.ts";
import { resourceRoutes } from "../src/admin/routes/routes.ts";
import { clientKeyVariable, edgeVariables, localVariable } from "../src/config/environment.ts";
import { notesOf, shapeOf } from "../src/config/field.ts";
import { publishedSchemaText } from "../src/config/json-schema/published.ts";
import { fileSchema } from "../src/config/schema.ts";
import { compatibilityPage, compatibilityRows } from "./compatibility/page.ts";
import { dependenciesPage } from "./dependencies.ts";
import { mapPage } from "./map.ts";

/**
 * Writes docs/configuration.md from the schema and the presets, the table of routes in docs/admin.md from the routes,
 * schema/ from the same settings, docs/dependencies.md from the locks and what scripts/dependencies.ts says of them, docs/map.md from the imports, and
 * docs/compatibility.md from playing every surface over every dialect.
 * Tests fail when the pages are not what this makes.
 */

const page = new URL("../docs/configuration.md", import.meta.url);
const adminPage = new URL("../docs/admin.md", import.meta.url);
const dependencyPage = new URL("../docs/dependencies.md", import.meta.url);
const foldersPage = new URL("../docs/map.md", import.meta.url);
const matrixPage = new URL("../docs/compatibility.md", import.meta.url);
/** Published with the package, so that editors complete and check files. */
export const schemaFiles = {
  configuration: new URL("../schema/sluice.schema.json", import.meta.url),
  resources: new URL("../schema/sluice-resources.schema.json", import.meta.url),
} as const;
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
provider keys in the environment (see [Without a file](#without-a-file)). \`sluice init\` writes a first file,
\`sluice check FILE\` checks a file without starting anything, and \`sluice config explain\` shows where each value comes from. In editors, the first
line of a file brings completion and checks ([configuration-as-code.md](configuration-as-code.md)).

- If a setting is unknown, a variable is missing or a value is wrong, the gateway does not start, and the message names the
  line, the reason and how to fix it.
- A running gateway reads the file again when it changes and on SIGHUP. If the new file has mistakes, the old configuration
  stays in use, and the log says why. Warnings of the new file that the old one did not have are logged as \`config_warning\`. Running
  calls finish with the configuration they began with. If a key is removed from the file, it is revoked, and its running calls end.
- The file may have up to 1 MiB. Keep larger numbers of keys (see [keys.md](keys.md)) and channels (see
  [admin.md](admin.md)) in the store, which holds millions of keys. Calls are served while the file is read again; with a
  file of the largest size they may be delayed once, by a few hundred milliseconds.
- Changes of \`listen\`, \`listen_mode\`, \`admin\`, \`admin_names\`, \`admin_tls\`, \`tls\`, \`sign_in\`, \`data_dir\`, \`store\`, \`store_connections\`,
  \`read_store\`, \`state\`, \`state_loss\`, \`receipts\`, \`metrics\`, \`webhooks\` and \`log\` take effect at the next start.
- Keys, channels and prices can also be added while the gateway runs, and are then kept in the store: see
  [keys.md](keys.md), [admin.md](admin.md) and [prices.md](prices.md). If the file and the store use the same name, the
  file wins.

**Variables.** \`\${NAME}\` in a value is replaced by that environment variable, \`\${NAME:-default}\` falls back when it is
unset or empty, \`$\${\` stands for a literal \`\${\`, and \`\${$}\` for a literal \`$\`. A variable that is not set and has no default is an error,
and so is \`$NAME\` without braces. If only \`NAME_FILE\` is set, the value is the contents of the file that it names, such as a
mounted secret (up to 64 KiB, without the line end); it is read at the start and at each reload. Keep API keys in variables or
files, not in the configuration. An empty file is an error; on a reload, the old configuration stays in use.

**Durations** are a number and a unit: \`300ms\`, \`5s\`, \`30m\`, \`1h\`. **Sizes** likewise: \`64MiB\`, \`25MB\`. \`off\` turns
a setting off, where the table says so.

**Addresses** of channels may be private or on this machine. They must be http or https, without user name, password,
query or fragment. The addresses of cloud metadata services and of link-local networks are never allowed.`;

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

\`provider: NAME\` in a channel sets all of this. Any other upstream that speaks the OpenAI API needs only a \`base_url\`.
If its models cannot be discovered, list them under \`models\`.

| provider | address | key | operations | models discovered | remarks |
|---|---|---|---|---|---|
${rows.map((row) => `| ${row} |`).join("\n")}`;
}

function keyCell(preset: Preset): string {
  if (!preset.needsKey) return "none, unless you set one";
  return preset.authHeader === "authorization" && preset.authPrefix === "Bearer " ? "bearer" : `\`${preset.authHeader}\` header`;
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
    .filter(({ environment: { key, address, keyParts = [], keyFile = [] } }) =>
      [key, address, keyParts, keyFile].some(({ length }) => length > 0),
    )
    .map(({ name, environment }) => {
      const { key, keyParts = [], keyFile = [], resource = [], region, address, beside } = environment;
      const code = (variable: string): string => `\`${variable}\``;
      const joined = keyParts.map(({ variable, optional }) => `${code(variable)}${optional ? " (optional)" : ""}`).join(" + ");
      const keys = [
        ...key.map(code),
        ...(joined === "" ? [] : [joined]),
        ...keyFile.map((variable) => `${code(variable)} (the path of a file)`),
      ];
      // Where a provider has both, a region and an address are two ways to say where it is.
      const places = [resource, [...region, ...address]].filter((names) => names.length > 0).map((names) => names.map(code).join(" or "));
      const channels = [name, ...(beside === undefined ? [] : [`${name}-${beside.suffix}`])].map(code).join(" and ");
      return `| ${channels} | ${keys.join(" or ")} | ${places.join("; ")} |`;
    });
  return `## Without a file

Each provider whose variables are set becomes a channel of that name in tier 1. Its models are discovered. If a provider
does not list its models, its channel accepts any name that no other channel lists, unless the name shows that the model is another
provider's: \`aura-2\` goes to \`deepgram\`, if there is such a channel.

| channel | key | address, region or project |
|---|---|---|
${rows.join("\n")}

\`${clientKeyVariable}\` sets the only client key. Without it, the first start creates one and prints it. What stands in front of the gateway
([edge.md](edge.md)) has variables too: ${edgeVariables.map(({ variable, path }) => `\`${variable}\` is \`${path}\``).join(", ")}.
The proxies are separated by commas. \`${localVariable}=off\` leaves the models of this machine out.

The program itself has these: \`SLUICE_CONFIG\` is \`--config\`; \`SLUICE_MASTER_KEY\` or \`SLUICE_MASTER_KEY_FILE\` is the master key, in place of
\`data_dir/master-key\` ([store.md](store.md)); \`SLUICE_ADMIN_URL\`, with \`SLUICE_ADMIN_TOKEN\` or \`SLUICE_ADMIN_TOKEN_FILE\`, makes commands use a gateway
elsewhere ([admin.md](admin.md#the-command-line-from-elsewhere)); \`SLUICE_HEALTH_URL\` is where \`sluice health\` asks; \`SLUICE_ENGINE_NICENESS\` is the priority of the
processes of local models ([embedded.md](embedded.md)).`;
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
  const rows = adminRoutes().map((route) => `| ${route.method} | \`${route.path}\` | ${whoMayUse(route)} | ${cell(route.summary)} |`);
  const table = ["", "| method | path | who | what |", "|---|---|---|---|", ...rows, "", ""].join("\n");
  return text.slice(0, begins + tableBegins.length) + table + text.slice(ends);
}

/** Group admins use a `scoped` route for what is in their group. What changes the caller alone is for every account. */
function whoMayUse({ access, scoped, own }: AdminRoute): string {
  if (access === "public") return access;
  if (own) return "every account";
  return scoped ? `${access}, group_admin` : access;
}

/** Everything that the listener serves, in the order of its paths. */
export function adminRoutes(): readonly AdminRoute[] {
  const door = { cookie: makeSessionCookie(false), secure: false, guard: new LoginGuard(() => 0), onBootstrapped: () => Promise.resolve() };
  const routes = [...loginRoutes(door), ...resourceRoutes, openApiRoute(() => [])];
  return routes.toSorted((one, other) => (one.path < other.path ? -1 : one.path > other.path ? 1 : 0));
}

if (import.meta.main) {
  for (const name of ["configuration", "resources"] as const) await Bun.write(schemaFiles[name], publishedSchemaText(name));
  await Bun.write(page, await configurationPage());
  await Bun.write(adminPage, withRoutes(await Bun.file(adminPage).text()));
  await Bun.write(dependencyPage, dependenciesPage());
  await Bun.write(foldersPage, mapPage());
  await Bun.write(matrixPage, compatibilityPage(await compatibilityRows()));
}
