import { defaultDialect, defaultPaths, optionsOf, presetAddress, presetNamed, usualQuirks, type Preset } from "../dialects/presets.ts";
import { dialects } from "../dialects/index.ts";
import type { Address, Capabilities, Quirks, Timeouts, Voices, LocalModel } from "../channels/channel.ts";
import { operations, type Operation } from "../operations/operation.ts";
import type { AuthKind } from "../channels/channel-auth.ts";
import { checkAddress } from "./address.ts";
import { authKindOf, readAuth, readAuthSecret } from "./channel-auth.ts";
import { problem, warning, type Finding, type Path } from "./findings/problem.ts";
import { InvalidValue, secret, type ModelsSetting } from "./kinds.ts";
import type { ChannelEntry } from "./schema.ts";
import type { ChannelSetting } from "./settings.ts";

/** One channel of the file as the gateway uses it, its keys, and the findings about it. */
export interface ChannelReading {
  readonly setting: ChannelSetting | null;
  readonly secrets: readonly (readonly [credential: string, secret: string])[];
  readonly findings: readonly Finding[];
}

/** Returns the contents of a file with a key, or null if it cannot be read. */
export type ReadSecretFile = (path: string) => string | null;

/** Many clients share pooled keys: one client's very large `max_tokens` must not reserve the quota of all. */
const pooledCeiling = 16_384;

/** What a channel depends on besides its own entry. */
export interface ChannelSources {
  readonly readSecretFile: ReadSecretFile;
  readonly localModels: readonly LocalModel[];
}

export function readChannel(entry: ChannelEntry, path: Path, { readSecretFile, localModels }: ChannelSources): ChannelReading {
  const preset = entry.provider === undefined ? null : presetNamed(entry.provider, entry.dialect ?? null);
  const resolved = preset?.local === true ? localAddress(entry, preset, path, localModels) : remoteAddress(entry, preset, path);
  const authKind = authKindOf(entry, preset);
  const keys = upstreamKeys(entry, preset, authKind, path, readSecretFile);
  const local = preset?.local === true ? localModels : [];
  const models: ModelsSetting =
    entry.models ?? (preset?.local === true ? named(local) : { kind: "discovered", listedPrefix: preset?.listedPrefix ?? "" });
  const findings = [...resolved.findings, ...keys.findings];
  if (resolved.address === null) return { setting: null, secrets: [], findings };
  const address = addresses.shared(resolved.address);
  const { auth, findings: authFindings } = readAuth(entry, authKind, address.baseUrl, path);
  findings.push(...authFindings);

  if (models.kind === "discovered" && address.modelsPath === null) {
    findings.push(problem([...path, "models"], "this upstream has no list of models to discover", 'name its models, or write models: "*"'));
  }
  if (!resolved.secure && !resolved.near && keys.secrets.length > 0) {
    findings.push(warning([...path, "base_url"], "the key is sent unencrypted over a public network", "use https"));
  }
  if (entry.unknown_voice === "default" && (entry.voices === undefined || entry.voices.size === 0)) {
    findings.push(problem([...path, "unknown_voice"], "there is no voice to use instead of an unknown one", "list voices as well"));
  }
  if (entry.api !== undefined && dialectOf(entry, preset) !== defaultDialect) {
    findings.push(problem([...path, "api"], "the channel's dialect has one API only", "remove this line"));
  }
  if (preset !== null && preset.warning !== null) {
    findings.push(warning([...path, "provider"], preset.warning, "use another provider, or remove the channel"));
  }

  // A channel without keys still needs one credential, because health and candidates belong to credentials.
  const credentials = keys.secrets.length === 0 ? [`${entry.name}#1`] : keys.secrets.map((_, at) => `${entry.name}#${at + 1}`);
  const dialect = dialectOf(entry, preset);
  const pooled = entry.pooled ?? credentials.length > 1;
  const { timeouts } = entry;
  const capabilities = capabilitiesOf(entry, preset, dialect, local);
  return {
    setting: {
      name: entry.name,
      provider: preset?.name ?? null,
      tags: entry.tags ?? none,
      reach: "any",
      dialect,
      address,
      ...(auth === null ? undefined : { auth }),
      credentials,
      pooled,
      tier: entry.tier ?? preset?.tier ?? 1,
      weight: entry.weight,
      maxTokensCeiling: entry.max_tokens_ceiling === undefined ? (pooled ? pooledCeiling : null) : entry.max_tokens_ceiling,
      timeouts: allTimeouts.shared({
        connectMs: timeouts.connect,
        firstByteMs: timeouts.first_byte,
        firstContentMs: timeouts.first_content,
        idleMs: timeouts.idle,
        progressMs: timeouts.progress,
        totalMs: timeouts.total,
      }),
      quota: entry.quota ?? null,
      concurrencyMax: entry.concurrency,
      // The maps of local models do not show in the text that parts are compared by.
      capabilities: local.length > 0 ? capabilities : allCapabilities.shared(capabilities),
      voices: voicesOf(entry, preset),
      modelVoices: modelVoicesOf(entry, local),
      quirks: allQuirks.shared({
        ...(preset?.quirks ?? usualQuirks),
        ...streamOptionsOf(entry.capabilities?.stream_options),
        ...chatApisOf(entry),
      }),
      headers: entry.headers === undefined ? noHeaders : Object.fromEntries(entry.headers),
      forwardHeaders: allForwarded.shared([...new Set([...forwardedBy(preset, dialect), ...(entry.forward_headers ?? [])])]),
      proxy: entry.proxy ?? null,
      models,
    },
    secrets: keys.secrets.map((key, at) => [`${entry.name}#${at + 1}`, key]),
    findings,
  };
}

/**
 * The parts of channels that are alike, each of them once: ten thousand channels then take some 10 MB less, and a call to any of them finds
 * most of what it reads in the caches.
 */
class EqualParts<Part extends object> {
  private readonly byText = new Map<string, Part>();

  shared(part: Part): Part {
    const text = JSON.stringify(part);
    const known = this.byText.get(text);
    if (known !== undefined) return known;
    if (this.byText.size >= partsMax) this.byText.clear();
    this.byText.set(text, part);
    return part;
  }
}

const partsMax = 1_000;
const addresses = new EqualParts<Address>();
const allTimeouts = new EqualParts<Timeouts>();
const allCapabilities = new EqualParts<Capabilities>();
const allQuirks = new EqualParts<Quirks>();
const allForwarded = new EqualParts<readonly string[]>();
const none: readonly string[] = [];
const noHeaders: Readonly<Record<string, string>> = {};

function capabilitiesOf(
  { capabilities, long_audio, long_input }: ChannelEntry,
  preset: Preset | null,
  dialect: string,
  local: readonly LocalModel[],
): Capabilities {
  const offered = (capabilities?.operations ?? preset?.operations ?? operations).filter((operation) => supports(dialect, operation));
  return {
    prefill: capabilities?.prefill ?? false,
    contextTokens: capabilities?.context_tokens ?? null,
    operations: offered,
    modelOperations: new Map(local.map(({ upstream, operation }) => [upstream, [operation]])),
    ...namedOperationsOf(preset, offered),
    modelDescriptions: new Map(local.map(({ upstream, description }) => [upstream, description])),
    transcriptionFormats:
      capabilities?.transcription_formats === undefined
        ? (preset?.transcriptionFormats ?? [])
        : [{ prefix: "", formats: capabilities.transcription_formats }],
    speechFormats: capabilities?.speech_formats ?? preset?.speechFormats ?? null,
    speechEvents: capabilities?.speech_events === undefined ? (preset?.speechEvents ?? null) : capabilities.speech_events ? null : [],
    translation: preset?.translation ?? true,
    transcriptionStream: capabilities?.transcription_stream ?? preset?.transcriptionStream ?? true,
    audioBytesMax: capabilities?.audio_limit ?? preset?.audioBytesMax ?? null,
    audioSecondsMax: capabilities?.audio_seconds ?? preset?.audioSecondsMax ?? null,
    inputCharactersMax: capabilities?.speech_limit ?? preset?.inputCharactersMax ?? null,
    splitsAudio: long_audio === "split",
    splitsInput: long_input === "split",
  };
}

/** The dialect's own text, where there is such a dialect, so that all channels have the same one. */
function dialectOf({ dialect }: ChannelEntry, preset: Preset | null): string {
  const name = dialect ?? preset?.dialect ?? defaultDialect;
  return dialects.get(name)?.name ?? name;
}

function forwardedBy(preset: Preset | null, dialect: string): readonly string[] {
  return preset?.forwardHeaders ?? dialects.get(dialect)?.defaults?.forwardHeaders ?? [];
}

function namedOperationsOf(preset: Preset | null, offered: readonly Operation[]): Pick<Capabilities, "namedOperations"> {
  const named = preset?.namedOperations.map(({ part, operations: own }) => ({
    part,
    operations: own.filter((one) => offered.includes(one)),
  }));
  return named === undefined || named.length === 0 ? {} : { namedOperations: named };
}

function supports(dialect: string, operation: Operation): boolean {
  return dialects.get(dialect)?.[operation] !== undefined;
}

function voicesOf({ voices, unknown_voice }: ChannelEntry, preset: Preset | null): Voices {
  if (voices === undefined && unknown_voice === undefined) return preset?.voices ?? anyVoice;
  const names = new Map(voices ?? []);
  const fallback = names.values().next().value ?? null;
  const policy = unknown_voice ?? (names.size > 0 ? "strict" : "pass");
  return { names, unknown: policy === "strict" ? "refuse" : policy === "default" && fallback !== null ? "replace" : "pass", fallback };
}

/** The voices of a local model are known: any other name gets the default voice, and the client is told. */
function modelVoicesOf({ voices, unknown_voice }: ChannelEntry, local: readonly LocalModel[]): ReadonlyMap<string, Voices> {
  if (voices !== undefined || unknown_voice !== undefined) return noModelVoices;
  const spoken = local.filter((model) => (model.voices ?? []).length > 0);
  if (spoken.length === 0) return noModelVoices;
  return new Map(
    spoken.map(({ upstream, voices: own = [] }) => {
      const names = new Map(own.map((voice) => [voice, voice]));
      return [upstream, { names, unknown: "replace", fallback: own[0] ?? null }];
    }),
  );
}

const anyVoice: Voices = { names: new Map(), unknown: "pass", fallback: null };
const noModelVoices: ReadonlyMap<string, Voices> = new Map();

function streamOptionsOf(value: boolean | undefined): { readonly streamOptions?: boolean } {
  return value === undefined ? {} : { streamOptions: value };
}

/** An older version of an API lacks the newer of the two, unless the channel says otherwise. */
function chatApisOf({ api, api_version }: ChannelEntry): { readonly chatApis?: Quirks["chatApis"] } {
  if (api !== undefined) return { chatApis: [...api].map(([models, chatApi]) => ({ models, api: chatApi })) };
  return api_version === undefined ? {} : { chatApis: [] };
}

function named(models: readonly LocalModel[]): ModelsSetting {
  return { kind: "map", names: new Map(models.map(({ id, upstream }) => [id, upstream])) };
}

function localAddress(entry: ChannelEntry, preset: Preset, path: Path, models: readonly LocalModel[]): ResolvedAddress {
  const findings = (["base_url", "dialect", "resource", "region", "api_version", "proxy"] as const)
    .filter((setting) => entry[setting] !== undefined)
    .map((setting) => problem([...path, setting], "local models have no address", "remove this line"));
  if (models.length === 0) {
    findings.push(
      problem(
        [...path, "provider"],
        "the local models are not installed",
        "install Sluice with npm, which brings them, or remove the channel",
      ),
    );
  }
  const address: Address = {
    ...preset.paths,
    baseUrl: preset.baseUrl,
    host: preset.name,
    modelsPath: null,
    query: "",
    authHeader: preset.authHeader,
    authPrefix: preset.authPrefix,
  };
  return { address: findings.length > 0 ? null : address, secure: true, near: true, findings };
}

interface ResolvedAddress {
  readonly address: Address | null;
  readonly secure: boolean;
  readonly near: boolean;
  readonly findings: readonly Finding[];
}

function remoteAddress(entry: ChannelEntry, preset: Preset | null, path: Path): ResolvedAddress {
  const unresolved = (...findings: Finding[]): ResolvedAddress => ({ address: null, secure: true, near: true, findings });
  if (preset === null && entry.base_url === undefined) {
    return unresolved(problem(path, "this channel has neither a provider nor a base_url", "give one of the two"));
  }
  const unused = unusedOptions(entry, preset, path);
  if (unused.length > 0) return unresolved(...unused);
  if (preset !== null && entry.dialect !== undefined && entry.dialect !== preset.dialect) {
    return unresolved(problem([...path, "dialect"], "the provider uses another dialect", "remove this line, or the provider"));
  }

  const { forwardHeaders: _, ...own } = dialects.get(entry.dialect ?? defaultDialect)?.defaults ?? {};
  const plain = { ...defaultPaths, modelsPath: "/models", query: "", authHeader: "authorization", authPrefix: "Bearer ", ...own };
  const found =
    preset === null
      ? { ...plain, baseUrl: entry.base_url ?? "" }
      : presetAddress(preset, {
          baseUrl: entry.base_url ?? null,
          resource: entry.resource ?? null,
          region: entry.region ?? null,
          apiVersion: entry.api_version ?? null,
        });
  if ("missing" in found) {
    return unresolved(
      problem([...path, found.missing], "this is missing: it is part of the provider's address", `add ${found.missing}: …`),
    );
  }
  const operation = ["/chat/completions", "/responses"].find((end) => found.baseUrl.endsWith(end));
  if (operation !== undefined) {
    return unresolved(problem([...path, "base_url"], "this is the address of one operation", `leave out ${operation}`));
  }
  const verdict = checkAddress(found.baseUrl);
  if (!verdict.ok) return unresolved(problem([...path, "base_url"], verdict.reason, verdict.fix));
  return {
    address: { ...found, baseUrl: verdict.url, host: verdict.host, ...authOf(entry.auth_header) },
    secure: verdict.secure,
    near: verdict.near,
    findings: [],
  };
}

function authOf(header: string | undefined): { readonly authHeader?: string; readonly authPrefix?: string } {
  return header === undefined ? {} : { authHeader: header, authPrefix: header === "authorization" ? "Bearer " : "" };
}

/** An option without effect is an error, because its author expects it to have one. */
function unusedOptions(entry: ChannelEntry, preset: Preset | null, path: Path): Finding[] {
  const inAddress: readonly string[] = preset === null || entry.base_url !== undefined ? [] : optionsOf(preset);
  // A signature is made for a region, whatever the address is.
  const used = authKindOf(entry, preset) === "aws" ? [...inAddress, "region"] : inAddress;
  const unused = (["resource", "region"] as const).filter((option) => entry[option] !== undefined && !used.includes(option));
  const findings = unused.map((option) => problem([...path, option], "it is not part of this channel's address", "remove this line"));
  if (entry.api_version !== undefined && (preset === null || preset.dated === null)) {
    findings.push(problem([...path, "api_version"], "this channel does not use an API version", "remove this line"));
  }
  return findings;
}

interface UpstreamKeys {
  readonly secrets: readonly string[];
  readonly findings: readonly Finding[];
}

function upstreamKeys(
  entry: ChannelEntry,
  preset: Preset | null,
  authKind: AuthKind,
  path: Path,
  readSecretFile: ReadSecretFile,
): UpstreamKeys {
  const given = (["api_key", "api_keys", "api_key_file"] as const).filter((setting) => entry[setting] !== undefined);
  const [first, second] = given;
  if (first !== undefined && second !== undefined) {
    return { secrets: [], findings: [problem([...path, second], `${first} is also set`, "keep one of the two")] };
  }
  if (entry.api_key_file !== undefined) {
    const contents = readSecretFile(entry.api_key_file);
    const filePath = [...path, "api_key_file"];
    if (contents === null) {
      return {
        secrets: [],
        findings: [problem(filePath, "this file cannot be read", "check the path and its permissions")],
      };
    }
    // The file of a service account has several lines, which become one.
    const text = authKind === "google" ? readAuthSecret(authKind, contents) : contents.trim();
    const key = typeof text === "string" ? secret().read(text) : new InvalidValue(text.reason, text.fix);
    return key instanceof InvalidValue
      ? { secrets: [], findings: [problem(filePath, `the file does not contain a key: ${key.reason}`, key.fix)] }
      : readAs(authKind, [key], filePath);
  }
  const secrets = entry.api_keys ?? (entry.api_key === undefined ? [] : [entry.api_key]);
  if (secrets.length > 0) return readAs(authKind, secrets, [...path, entry.api_keys === undefined ? "api_key" : "api_keys"]);
  // Without a key, signatures and tokens are those of this machine.
  if (authKind !== "key" || preset?.needsKey !== true) return { secrets, findings: [] };
  const variable = preset.environment.key[0] ?? "NAME";
  return {
    secrets,
    findings: [problem([...path, "api_key"], "this is missing: the provider requires a key", `add api_key: \${${variable}}`)],
  };
}

function readAs(authKind: AuthKind, texts: readonly string[], path: Path): UpstreamKeys {
  const read = texts.map((text) => readAuthSecret(authKind, text));
  const findings = read.flatMap((one) => (typeof one === "string" ? [] : [problem(path, one.reason, one.fix)]));
  return { secrets: read.filter((one) => typeof one === "string"), findings };
}
