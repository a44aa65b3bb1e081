/** The text that the gateway prints when it has started: its address, keys and channels, and what to do next. Commands are as in `sluice start`. */
export function welcome(facts: WelcomeFacts): string {
  const socket = /^unix:(.+)$/.exec(facts.url)?.[1];
  return [
    socket === undefined ? `Sluice is listening on ${facts.url}/v1` : `Sluice is listening on the unix socket ${socket}`,
    "",
    ...keyLines(facts),
    ...adminLines(facts),
    ...channelLines(facts),
    ...nextLines(socket === undefined ? facts : { ...facts, url: `--unix-socket ${shellQuoted(socket)} http://localhost` }),
    "",
  ].join("\n");
}

export interface WelcomeFacts {
  readonly url: string;
  readonly configFile: string | null;
  /** The token of a key that was created because there was none. It is shown only here. */
  readonly madeKey: string | null;
  /** The address of the admin API, and the file with the token that creates its first account. */
  readonly admin: { readonly url: string; readonly bootstrap: string | null } | null;
  /** The keys of the configuration, and how many the store has. */
  readonly keyNames: readonly string[];
  readonly storedKeys: number;
  readonly channels: readonly {
    readonly name: string;
    readonly host: string;
    readonly models: number | null;
    readonly trouble: string | null;
  }[];
  /** Environment variables that would add a channel. */
  readonly variables: readonly string[];
  readonly firstModel: string | null;
  /** No provider is configured: only the local models answer. */
  readonly onlyLocal: boolean;
  /** A model to try for each operation, if there is one. */
  readonly tryModels: { readonly transcription: string | null; readonly speech: string | null };
}

function keyLines({ madeKey, keyNames, storedKeys, configFile }: WelcomeFacts): string[] {
  const given = configOption(configFile);
  if (madeKey === null) {
    const stored =
      storedKeys === 0
        ? []
        : [`${storedKeys >= 1000 ? "1000 keys or more" : plural(storedKeys, "key")} in the store (sluice keys list${given})`];
    return [`Keys: ${[...firstFew(keyNames), ...stored].join(", ")}`, `Create another with: sluice keys create NAME${given}`, ""];
  }
  return [
    "Your client key, created at this first start and shown only once:",
    "",
    `  ${madeKey}`,
    "",
    `Only its hash is stored. Create more keys with: sluice keys create NAME${given}`,
    "",
  ];
}

/** Without this option, a command would use the store of the default data folder. */
function configOption(configFile: string | null): string {
  return configFile === null ? "" : ` --config ${shellQuoted(configFile)}`;
}

/** Quotes an argument for a shell. */
export function shellQuoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The first items of a list, and how many more there are. */
function firstFew(all: readonly string[], indent = ""): readonly string[] {
  return all.length <= shownMax ? all : [...all.slice(0, shownMax), `${indent}and ${all.length - shownMax} more`];
}

const shownMax = 30;

function adminLines({ admin, configFile }: WelcomeFacts): string[] {
  if (admin === null) return [];
  const first =
    admin.bootstrap === null
      ? []
      : [
          `  Create its first account with: sluice accounts create NAME --role admin${configOption(configFile)}`,
          `  or, within the hour, in the console with the token in ${admin.bootstrap}`,
        ];
  return [`The console is at ${admin.url}`, `The admin API is at ${admin.url}/admin/api`, ...first, ""];
}

function channelLines({ channels, configFile, onlyLocal }: WelcomeFacts): string[] {
  if (channels.length === 0) return [];
  return [
    configFile !== null
      ? `Channels, from ${configFile}:`
      : onlyLocal
        ? "Channels:"
        : "Channels, from the provider keys in your environment:",
    // Channels with a problem come first.
    ...firstFew(
      channels
        .toSorted((one, other) => Number(other.trouble !== null) - Number(one.trouble !== null))
        .map(
          ({ name, host, models, trouble }) =>
            `  ${name} (${host}): ${trouble ?? (models === null ? "any model" : plural(models, "model"))}`,
        ),
      "  ",
    ),
    "",
  ];
}

function nextLines({ channels, url, firstModel, variables, configFile, onlyLocal, tryModels }: WelcomeFacts): string[] {
  if (channels.length === 0) {
    const [example, ...others] = variables;
    return [
      "There is no channel yet, so no model can answer. Either",
      `  - set a provider's key and start again, such as ${example}=… sluice start`,
      `    (${alsoKnown(others)}), or`,
      `  - write a configuration file and start with: sluice start --config sluice.yaml`,
      `    (an example is examples/sluice.yaml, every setting is in docs/configuration.md)${configFile === null ? "" : `; ${configFile} lists no channels`}`,
    ];
  }
  return [
    "Try it, with a client key in KEY (export KEY=…):",
    `  curl ${url}/v1/chat/completions -H 'Authorization: Bearer '"$KEY" -H 'Content-Type: application/json' \\`,
    `    -d '{"model": "${firstModel ?? "MODEL"}", "messages": [{"role": "user", "content": "Hello"}]}'`,
    ...audioLines(url, tryModels),
    ...(onlyLocal ? [...missingLines(tryModels), ...providerLines(variables)] : []),
  ];
}

/** The models of this machine are optional packages. */
function missingLines({ speech, transcription }: WelcomeFacts["tryModels"]): string[] {
  const missing = [...(transcription === null ? ["transcription"] : []), ...(speech === null ? ["speech"] : [])];
  return missing.length === 0
    ? []
    : ["", `No model for ${missing.join(" or ")} is installed on this machine: sluice models list says how to get one.`];
}

function audioLines(url: string, { speech, transcription }: WelcomeFacts["tryModels"]): string[] {
  const lines: string[] = [];
  if (speech !== null) {
    lines.push(
      `  curl ${url}/v1/audio/speech -H 'Authorization: Bearer '"$KEY" -H 'Content-Type: application/json' -o hello.mp3 \\`,
      `    -d '{"model": "${speech}", "voice": "alloy", "input": "Hello from this machine."}'`,
    );
  }
  if (transcription !== null) {
    lines.push(`  curl ${url}/v1/audio/transcriptions -H 'Authorization: Bearer '"$KEY" -F model=${transcription} -F file=@hello.mp3`);
  }
  return lines;
}

/** The local models are small, so this says how to add larger ones. */
function providerLines(variables: readonly string[]): string[] {
  const [example, ...others] = variables;
  return [
    "",
    "These are small models that run on this machine: the chat model only tells stories. For models of a provider",
    `set its key and start again, such as ${example}=… sluice start (${alsoKnown(others)}),`,
    "or write a configuration file and start with: sluice start --config sluice.yaml (see examples/sluice.yaml, docs/configuration.md).",
  ];
}

/** A few names; the page has all of them. */
function alsoKnown(variables: readonly string[]): string {
  const more = variables.length - namedMax;
  if (more <= 0) return `also known: ${variables.join(", ")}`;
  return `also known: ${variables.slice(0, namedMax).join(", ")} and ${more} more, see docs/configuration.md`;
}

const namedMax = 6;

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
