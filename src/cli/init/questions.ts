import { presets, type Preset } from "../../dialects/presets.ts";
import type { Terminal } from "../terminal.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import { shown } from "../shown-text.ts";
import type { InitRequest } from "./arguments.ts";
import { neededOptions, variablesOf, type InitAnswers, type InitKey } from "./configuration-text.ts";

export interface Questioner {
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The known name that is most similar to a mistyped one. */
  readonly nearest: (word: string, known: readonly string[]) => string | null;
}

/** A key that was typed, which is stored beside the configuration. */
export interface EnteredKey {
  readonly secret: string;
}

/** The answers to all questions: those that were given as options, and the rest from the person, or else the defaults. */
export async function answersTo(
  request: InitRequest,
  who: Questioner,
): Promise<{ readonly answers: Omit<InitAnswers, "key">; readonly key: InitKey | EnteredKey }> {
  const { preset, baseUrl } = await upstreamOf(request, who);
  const place = { resource: request.resource, region: request.region };
  for (const option of neededOptions(preset, baseUrl)) {
    place[option] ??= await required(option, preset, request.yes, who);
  }
  const key = await keyOf(request, preset, who);
  const models = request.models ?? (await modelsOf(request, preset, who));
  const listen = await listenOf(request, who);
  return { answers: { preset, baseUrl, ...place, models, listen, dataDir: request.dataDir }, key };
}

const names = presets.map(({ name }) => name);

async function upstreamOf(
  { provider, baseUrl, yes }: InitRequest,
  { terminal, env, nearest }: Questioner,
): Promise<{ readonly preset: Preset | null; readonly baseUrl: string | null }> {
  const named = (word: string): InitReading<{ readonly preset: Preset | null; readonly baseUrl: string | null }> => {
    if (/^https?:\/\//i.test(word)) return { value: { preset: null, baseUrl: word } };
    const preset = presets.find(({ name }) => name === word.toLowerCase());
    if (preset !== undefined) return { value: { preset, baseUrl } };
    const similar = nearest(word, names);
    const hint = similar === null ? `Known are: ${names.join(", ")}.` : `Did you mean "${similar}"?`;
    return { problem: `There is no provider "${shown(word)}". ${hint}` };
  };
  if (provider !== null) return orUsage(named(provider.trim()));
  if (baseUrl !== null) return { preset: null, baseUrl };
  const usual = usualProvider(env);
  if (yes) return { preset: usual, baseUrl: null };
  terminal.say(`Providers: ${names.join(", ")}\n`);
  return ask(terminal, "Provider, or the address of a server that speaks the OpenAI API", usual?.name ?? "", named);
}

/** The provider whose key is in the environment, or the models of this machine. */
function usualProvider(env: Questioner["env"]): Preset | null {
  const isSet = ({ environment }: Preset): boolean => environment.key.some((name) => (env[name] ?? "").trim() !== "");
  return presets.find(isSet) ?? presets.find(({ local }) => local) ?? null;
}

async function required(
  option: "resource" | "region",
  preset: Preset | null,
  yes: boolean,
  { terminal, env }: Questioner,
): Promise<string> {
  const variables = option === "region" ? (preset?.environment.region ?? []) : (preset?.environment.resource ?? []);
  const found = variables.map((name) => env[name]?.trim() ?? "").find((value) => value !== "") ?? "";
  if (yes && found === "") throw new CommandError(`${preset?.name ?? "The provider"} needs --${option}.`, exitCodes.usage);
  if (yes) return found;
  return ask(terminal, option === "region" ? "Region" : "Resource or project", found, (value) =>
    value === "" ? { problem: "It is part of the address, so it is needed." } : { value },
  );
}

async function keyOf(request: InitRequest, preset: Preset | null, { terminal }: Questioner): Promise<InitKey | EnteredKey> {
  const { apiKeyEnv, apiKeyFile, yes } = request;
  if (apiKeyEnv !== null && apiKeyFile !== null)
    throw new CommandError("Give either --api-key-env or --api-key-file, not both.", exitCodes.usage);
  if (apiKeyEnv !== null) {
    if (variablePattern.test(apiKeyEnv)) return { kind: "variable", name: apiKeyEnv };
    throw new CommandError("--api-key-env takes the name of a variable, such as LLM_KEY, and not the key itself.", exitCodes.usage);
  }
  if (apiKeyFile !== null) return { kind: "file", path: apiKeyFile };
  const isNeeded = preset === null || preset.needsKey;
  const usual: InitKey = preset !== null && isNeeded ? { kind: "usual" } : { kind: "none" };
  if (yes || !isNeeded) return usual;
  const variables = variablesOf({ key: usual, preset });
  const otherwise = variables.length === 0 ? "leave it empty if there is none" : `leave it empty to use ${variables.join(" and ")}`;
  const secret = (await terminal.secret(`API key (not shown; ${otherwise}): `)).trim();
  return secret === "" ? usual : { secret };
}

const variablePattern = /^[A-Za-z_]\w{0,127}$/;

async function modelsOf({ yes }: InitRequest, preset: Preset | null, { terminal }: Questioner): Promise<readonly string[] | null> {
  if (yes || preset?.local === true) return null;
  return ask(terminal, "Models, separated by commas (empty: all that it lists)", "", (text) => {
    const models = new Set(text.split(",").map((model) => model.trim()));
    models.delete("");
    return { value: models.size === 0 ? null : [...models] };
  });
}

async function listenOf({ listen, yes }: InitRequest, { terminal }: Questioner): Promise<string> {
  const valid = (value: string): InitReading<string> =>
    listenPattern.test(value) ? { value } : { problem: `"${shown(value)}" is not HOST:PORT or unix:PATH, such as ${usualListen}.` };
  const given = listen ?? (yes ? usualListen : null);
  return given === null ? ask(terminal, "Where clients connect", usualListen, valid) : orUsage(valid(given));
}

const usualListen = "127.0.0.1:4400";
const listenPattern = /^(unix:\/.+|(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):\d{1,5})$/;

type InitReading<T> = { readonly value: T } | { readonly problem: string };

function orUsage<T>(answer: InitReading<T>): T {
  if ("value" in answer) return answer.value;
  throw new CommandError(answer.problem, exitCodes.usage);
}

/** Asks until the answer can be used; a few times only, because input may have ended. */
async function ask<T>(terminal: Terminal, question: string, usual: string, read: (text: string) => InitReading<T>): Promise<T> {
  for (let tries = 0; tries < triesMax; tries++) {
    const typed = (await terminal.ask(usual === "" ? `${question}: ` : `${question} [${usual}]: `)).trim();
    const answer = read(typed === "" ? usual : typed);
    if ("value" in answer) return answer.value;
    terminal.say(answer.problem);
  }
  throw new CommandError("None of these answers can be used: nothing was written.", exitCodes.usage);
}

const triesMax = 5;
