/** What a person reads when the gateway has started: where it is, who may use it, what it can reach, what to do next. */
export function welcome(facts: WelcomeFacts): string {
  return [`Sluice is listening on ${facts.url}/v1`, "", ...keyLines(facts), ...channelLines(facts), ...nextLines(facts), ""].join("\n");
}

export interface WelcomeFacts {
  readonly url: string;
  readonly configFile: string | null;
  /** A key made for this start because none was configured; shown this once. */
  readonly madeKey: string | null;
  readonly keyNames: readonly string[];
  readonly channels: readonly {
    readonly name: string;
    readonly host: string;
    readonly models: number | null;
    readonly trouble: string | null;
  }[];
  /** Environment variables that would have made a channel. */
  readonly variables: readonly string[];
  readonly firstModel: string | null;
}

function keyLines({ madeKey, keyNames }: WelcomeFacts): string[] {
  if (madeKey === null) return [`Keys: ${keyNames.join(", ")}`, ""];
  return [
    "Your client key, made for this start and shown only now:",
    "",
    `  ${madeKey}`,
    "",
    "It lives until this process stops. For a lasting one, set SLUICE_KEY or list `keys` in a configuration file.",
    "",
  ];
}

function channelLines({ channels, configFile }: WelcomeFacts): string[] {
  if (channels.length === 0) return [];
  return [
    configFile === null ? "Channels, from the provider keys in your environment:" : `Channels, from ${configFile}:`,
    ...channels.map(
      ({ name, host, models, trouble }) => `  ${name} (${host}): ${trouble ?? (models === null ? "any model" : plural(models, "model"))}`,
    ),
    "",
  ];
}

function nextLines({ channels, url, firstModel, variables, configFile }: WelcomeFacts): string[] {
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
    "Try it:",
    `  curl ${url}/v1/chat/completions -H 'Authorization: Bearer '"$KEY" -H 'Content-Type: application/json' \\`,
    `    -d '{"model": "${firstModel ?? "MODEL"}", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ];
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
