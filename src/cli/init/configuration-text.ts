import { optionsOf, type Preset } from "../../dialects/presets.ts";

/** The answers of which a configuration is made. */
export interface InitAnswers {
  /** Null: an upstream that speaks the OpenAI API, at `baseUrl`. */
  readonly preset: Preset | null;
  readonly baseUrl: string | null;
  readonly resource: string | null;
  readonly region: string | null;
  readonly key: InitKey;
  /** Null: all that the upstream lists. */
  readonly models: readonly string[] | null;
  readonly listen: string;
  readonly dataDir: string;
}

/** Where the API key comes from. It never stands in the configuration itself. */
export type InitKey =
  | { readonly kind: "none" }
  | { readonly kind: "variable"; readonly name: string }
  /** The variables that the provider's own tools read. */
  | { readonly kind: "usual" }
  | { readonly kind: "file"; readonly path: string };

export function channelNameOf({ preset }: Pick<InitAnswers, "preset">): string {
  return preset?.name ?? "upstream";
}

/** The text of a configuration file, with what can be changed next as comments. */
export function configurationText(answers: InitAnswers): string {
  return `# yaml-language-server: $schema=./sluice.schema.json
# Made by: sluice init. docs/configuration.md lists every setting with its default.
# The schema beside it is for your editor. After an upgrade: sluice config schema > sluice.schema.json
# \${NAME} is taken from the environment, or from the file that NAME_FILE names.

# Where clients connect. 0.0.0.0:4400 makes it reachable from other machines; then set tls, or put a proxy in front.
listen: ${yamlText(answers.listen)}

# The console and the admin API; off closes both.
admin: ${adminOf(answers.listen)}

# Keys, receipts and the master key. Keep a copy of data_dir/master-key, or use: sluice backup
data_dir: ${yamlText(answers.dataDir)}
# store: \${STORE_URL}   # postgres://user:password@host:5432/database, if several machines share it
# state: \${STATE_URL}   # redis://host:6379, which shares limits between them

# Where calls go. Channels that serve the same model back each other up: the next tier is asked when one fails.
channels:
  - name: ${channelNameOf(answers)}
${channelLines(answers)
  .map((line) => `    ${line}\n`)
  .join("")}
# Who may call. The first start makes a key and prints it once; make more with: sluice keys create NAME
# keys:
#   - name: app
#     key: \${APP_KEY}      # at least 16 characters
#     limits: { rpm: 600, budget_usd: 100, budget_period: month }
`;
}

function channelLines(answers: InitAnswers): readonly string[] {
  const { preset, baseUrl, resource, region, models } = answers;
  return [
    ...(preset === null ? [] : [`provider: ${preset.name}`]),
    ...(baseUrl === null ? [] : [`base_url: ${yamlText(baseUrl)}`]),
    ...(resource === null ? [] : [`resource: ${yamlText(resource)}`]),
    ...(region === null ? [] : [`region: ${yamlText(region)}`]),
    ...keyLines(answers),
    ...modelLines(preset, models),
    "# tier: 1              # a lower tier is asked first",
    "# timeouts: { connect: 5s, first_content: 60s }",
  ];
}

function keyLines({ key, preset }: InitAnswers): readonly string[] {
  switch (key.kind) {
    case "none":
      return [];
    case "variable":
      return [`api_key: "\${${key.name}}"`];
    case "file":
      return [`api_key_file: ${yamlText(key.path)}`];
    case "usual":
      return preset === null ? [] : usualKeyLines(preset);
  }
}

function usualKeyLines({ environment: { key, keyParts = [], keyPartsAuth, keyFile = [] } }: Preset): readonly string[] {
  const [variable] = key;
  if (variable !== undefined) return [`api_key: "\${${variable}}"`];
  if (keyParts.length > 0) {
    const parts = keyParts.map((part) => `\${${part.variable}${part.optional ? ":-" : ""}}`);
    return [`api_key: "${parts.join(":")}"`, ...(keyPartsAuth === undefined ? [] : [`auth: ${keyPartsAuth}`])];
  }
  return keyFile.slice(0, 1).map((file) => `api_key_file: "\${${file}}"`);
}

/** The variables that must be set before the configuration can be used. */
export function variablesOf({ key, preset }: Pick<InitAnswers, "key" | "preset">): readonly string[] {
  if (key.kind === "variable") return [key.name];
  if (key.kind !== "usual" || preset === null) return [];
  const { key: keys, keyParts = [], keyFile = [] } = preset.environment;
  if (keys.length > 0) return keys.slice(0, 1);
  if (keyParts.length > 0) return keyParts.filter(({ optional }) => !optional).map(({ variable }) => variable);
  return keyFile.slice(0, 1);
}

function modelLines(preset: Preset | null, models: readonly string[] | null): readonly string[] {
  if (models?.length === 1 && models[0] === "*") return ['models: "*"'];
  if (models !== null) return [`models: [${models.map(yamlText).join(", ")}]`];
  if (preset?.modelsPath === null && !preset.local) return ['models: "*"            # this provider lists none: any name is sent to it'];
  return ["# models: { fast: its-name }   # default: all that it lists; to the left is the name that clients use"];
}

/** What a preset needs besides a key. */
export function neededOptions(preset: Preset | null, baseUrl: string | null): readonly ("resource" | "region")[] {
  return preset === null || baseUrl !== null ? [] : optionsOf(preset);
}

/** The port after that of the clients, on this machine only: others need TLS to use it safely. */
function adminOf(listen: string): string {
  const port = Number(/:(\d{1,5})$/.exec(listen)?.[1] ?? "4400");
  return `127.0.0.1:${port === 0 ? 0 : port >= portMax ? port - 1 : port + 1}`;
}

const portMax = 65_535;

/** A text as YAML has it: quoted where it could be read as something else, and without variables. */
function yamlText(text: string): string {
  const isPlain = /^[A-Za-z./][\w./-]*$/.test(text) && !/^(true|false|yes|no|on|off|y|n|null|\.inf|\.nan)$/i.test(text);
  return isPlain ? text : JSON.stringify(text.replaceAll("${", () => "$${"));
}
