/** What a person reads when the gateway has started: where it is, who may use it, what it can reach, what to do next. */
export function welcome(facts: WelcomeFacts): string {
  return [
    `Sluice is listening on ${facts.url}/v1`,
    "",
    ...keyLines(facts),
    ...adminLines(facts),
    ...channelLines(facts),
    ...nextLines(facts),
    "",
  ].join("\n");
}

export interface WelcomeFacts {
  readonly url: string;
  readonly configFile: string | null;
  /** A key made because there was none; shown this once. */
  readonly madeKey: string | null;
  /** Where the admin API listens, and the file with the token that makes its first account. */
  readonly admin: { readonly url: string; readonly bootstrap: string | null } | null;
  /** Keys of the configuration, and how many there are beside them. */
  readonly keyNames: readonly string[];
  readonly storedKeys: number;
  readonly channels: readonly {
    readonly name: string;
    readonly host: string;
    readonly models: number | null;
    readonly trouble: string | null;
  }[];
  /** Environment variables that would have made a channel. */
  readonly variables: readonly string[];
  readonly firstModel: string | null;
  /** Only the small models of this machine answer: no provider is configured. */
  readonly onlyLocal: boolean;
  /** A model to try for each operation, where there is one. */
  readonly tryModels: { readonly transcription: string | null; readonly speech: string | null };
}

function keyLines({ madeKey, keyNames, storedKeys, configFile }: WelcomeFacts): string[] {
  // Without the file, a command would work on the store of another place.
  const given = configFile === null ? "" : ` --config ${inShell(configFile)}`;
  if (madeKey === null) {
    const stored =
      storedKeys === 0
        ? []
        : [
            `${storedKeys >= 1000 ? "1000 keys or more" : plural(storedKeys, "key")} in the store (npm run --silent sluice -- keys list${given})`,
          ];
    return [
      `Keys: ${[...someOf(keyNames), ...stored].join(", ")}`,
      `Create another with: npm run --silent sluice -- keys create NAME${given}`,
      "",
    ];
  }
  return [
    "Your client key, created at this first start and shown only once:",
    "",
    `  ${madeKey}`,
    "",
    `Only its hash is stored. Create more keys with: npm run --silent sluice -- keys create NAME${given}`,
    "",
  ];
}

/** A word as a shell takes it. */
function inShell(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** As many as a person reads. */
function someOf(all: readonly string[], indent = ""): readonly string[] {
  return all.length <= shownMax ? all : [...all.slice(0, shownMax), `${indent}and ${all.length - shownMax} more`];
}

const shownMax = 30;

function adminLines({ admin }: WelcomeFacts): string[] {
  if (admin === null) return [];
  const first =
    admin.bootstrap === null
      ? []
      : [`  Create its first account within the hour, with the token in ${admin.bootstrap} (see docs/admin.md).`];
  return [`The admin API is at ${admin.url}/admin/api`, ...first, ""];
}

function channelLines({ channels, configFile, onlyLocal }: WelcomeFacts): string[] {
  if (channels.length === 0) return [];
  return [
    configFile !== null
      ? `Channels, from ${configFile}:`
      : onlyLocal
        ? "Channels:"
        : "Channels, from the provider keys in your environment:",
    // What does not work is what one wants to see.
    ...someOf(
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
      `  - set a provider's key and start again, such as ${example}=… npm start`,
      `    (also known: ${others.join(", ")}), or`,
      `  - write a configuration file and start with: npm start -- --config sluice.yaml`,
      `    (an example is examples/sluice.yaml, every setting is in docs/configuration.md)${configFile === null ? "" : `; ${configFile} lists no channels`}`,
    ];
  }
  return [
    "Try it, with a client key in KEY (export KEY=…):",
    `  curl ${url}/v1/chat/completions -H 'Authorization: Bearer '"$KEY" -H 'Content-Type: application/json' \\`,
    `    -d '{"model": "${firstModel ?? "MODEL"}", "messages": [{"role": "user", "content": "Hello"}]}'`,
    ...audioLines(url, tryModels),
    ...(onlyLocal ? providerLines(variables) : []),
  ];
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

/** The models of this machine are small. What to do for large ones is worth a line. */
function providerLines(variables: readonly string[]): string[] {
  const [example, ...others] = variables;
  return [
    "",
    "These are small models that run on this machine: the chat model only tells stories. For models of a provider",
    `set its key and start again, such as ${example}=… npm start (also known: ${others.join(", ")}),`,
    "or write a configuration file and start with: npm start -- --config sluice.yaml (see examples/sluice.yaml, docs/configuration.md).",
  ];
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
