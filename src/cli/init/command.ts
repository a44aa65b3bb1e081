import { access, chmod, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { accountName, createAccount, passwordProblem } from "../../manage/accounts.ts";
import type { Actor } from "../../gateway/storage.ts";
import type { OpenStore } from "../command-context.ts";
import { CommandError, exitCodes, orThrow, unwritten } from "../command-error.ts";
import { json } from "../shown-text.ts";
import { shellQuoted } from "../process/welcome.ts";
import { writeSchemaBeside, type SchemaText, type WrittenSchema } from "../schema-file.ts";
import type { Terminal } from "../terminal.ts";
import type { InitRequest } from "./arguments.ts";
import { channelNameOf, configurationText, variablesOf, type InitAnswers, type InitKey } from "./configuration-text.ts";
import { answersTo, type Questioner, type EnteredKey } from "./questions.ts";

export interface InitContext extends Questioner {
  readonly actor: Actor;
  /** What is wrong with a configuration, if its variables have these values. */
  readonly problemsOf: (file: string, text: string, env: Readonly<Record<string, string>>) => Promise<readonly string[]>;
  readonly schemaText: SchemaText;
  /** Opens the store that the file names. */
  readonly openStore: (file: string, env: Readonly<Record<string, string>>) => Promise<OpenStore>;
}

/** Carries out `sluice init` and returns the exit code. */
export async function runInit(request: InitRequest, context: InitContext): Promise<number> {
  try {
    await init(request, context);
    return 0;
  } catch (error) {
    context.terminal.say(error instanceof Error ? error.message : String(error));
    return error instanceof CommandError ? error.exitCode : exitCodes.failure;
  }
}

async function init(request: InitRequest, context: InitContext): Promise<void> {
  const { terminal } = context;
  const { file, force } = request;
  // Before the questions, so that nobody answers them in vain.
  if (!force && (await exists(file))) throw new CommandError(occupied(file), exitCodes.usage);
  if (!request.yes && !terminal.isInteractive) throw new CommandError(nobodyToAsk, exitCodes.usage);
  const { answers, key } = await answersTo(request, context);
  const account = await accountOf(request, terminal);
  const stored = storedKey(key, file, answers);
  const complete: InitAnswers = { ...answers, key: stored.key };
  const variables = variablesOf(complete);
  // Variables may be set later, so that a missing one is no mistake; nor is the file of the key, which is written below.
  const env = Object.fromEntries([...variables, keyForCheck].map((name) => [name, context.env[name] || placeholder]));
  const checked: InitAnswers = stored.file === null ? complete : { ...complete, key: { kind: "variable", name: keyForCheck } };
  const problems = await context.problemsOf(file, configurationText(checked), env);
  if (problems.length > 0)
    throw new CommandError(["This cannot be used, so that nothing was written:", ...problems].join("\n"), exitCodes.usage);
  if (stored.file !== null) await write(stored.file.path, `${stored.file.secret}\n`, 0o600, force);
  await write(file, configurationText(complete), 0o644, force);
  const schema = await writeSchemaBeside(file, "configuration", context.schemaText, async (path) => {
    if (force || request.yes) return force;
    return terminal.confirm(`${path} exists already, and is not the schema of this version. Replace it?`);
  });
  if (account !== null) await makeAccount(account, file, env, context);
  report(request, complete, { keyFile: stored.file?.path ?? null, schema }, variables, context);
}

const nobodyToAsk = `Standard input is not a terminal, so that no questions can be asked. Add --yes, and give what should differ from the defaults:
  --provider NAME                    or --base-url URL; --resource and --region where the provider needs them
  --api-key-env NAME                 or --api-key-file FILE
  --models A,B
  --listen HOST:PORT
  --admin-account NAME               with its password on standard input`;

const keyForCheck = "SLUICE_INIT_KEY";
const placeholder = "0123456789abcdef";

function storedKey(
  key: InitKey | EnteredKey,
  file: string,
  answers: Pick<InitAnswers, "preset">,
): { readonly key: InitKey; readonly file: { readonly path: string; readonly secret: string } | null } {
  if ("kind" in key) return { key, file: null };
  const name = `${channelNameOf(answers)}.key`;
  return { key: { kind: "file", path: `./${name}` }, file: { path: join(dirname(file), name), secret: key.secret } };
}

interface InitAccount {
  readonly name: string;
  readonly password: string;
}

async function accountOf({ adminAccount, yes }: InitRequest, terminal: Terminal): Promise<InitAccount | null> {
  const typed =
    adminAccount ?? (yes ? "" : await terminal.ask("Name of the first admin account (empty: create it in the console later): "));
  if (typed.trim() === "") return null;
  const name = accountName(typed);
  if (name === null)
    throw new CommandError("A name has 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit.", exitCodes.usage);
  const password = await terminal.secret(`Password for ${name} (not shown): `);
  orThrow(passwordProblem(password, name));
  if (terminal.isInteractive && (await terminal.secret("Repeat it: ")) !== password)
    throw new CommandError("The passwords do not match: nothing was written.", exitCodes.usage);
  return { name, password };
}

async function makeAccount(
  { name, password }: InitAccount,
  file: string,
  env: Readonly<Record<string, string>>,
  { openStore, actor, terminal }: InitContext,
): Promise<void> {
  const store = await openStore(file, env);
  try {
    // With --force, the store of an earlier configuration may have it.
    if ((await store.storage.accounts.list()).some((account) => account.name === name))
      return terminal.say(`Account ${name} exists already, and stays as it is.`);
    orThrow(await createAccount(store, { name, role: "admin", password }, actor));
  } finally {
    await store.close();
  }
}

async function exists(file: string): Promise<boolean> {
  try {
    await access(file);
    return true;
  } catch {
    return false;
  }
}

function occupied(file: string): string {
  return `${file} exists already: name another file, or add --force to overwrite it.`;
}

async function write(file: string, text: string, mode: number, force: boolean): Promise<void> {
  try {
    await writeFile(file, text, { flag: force ? "w" : "wx", mode });
    // A file that was there before keeps its mode.
    if (force) await chmod(file, mode);
  } catch (error) {
    throw unwritten(file, error, occupied(file));
  }
}

function report(
  { file, json: asJson, adminAccount }: InitRequest,
  answers: InitAnswers,
  { keyFile, schema }: { readonly keyFile: string | null; readonly schema: WrittenSchema },
  variables: readonly string[],
  { terminal, env }: InitContext,
): void {
  const missing = variables.filter((name) => (env[name] ?? "") === "");
  const next = `sluice start --config ${shellQuoted(file)}`;
  const channel = channelNameOf(answers);
  if (asJson) {
    const files = { file, schema_file: schema.file, key_file: keyFile };
    return terminal.print(json({ ...files, channel, missing_variables: missing, account: adminAccount, next }));
  }
  const lines = [
    `Wrote ${file}, with the channel ${channel}.`,
    schema.note,
    ...(keyFile === null ? [] : [`The key is in ${keyFile}, which only its owner can read.`]),
    ...(missing.length === 0 ? [] : [`Set ${missing.join(" and ")} before the start.`]),
    "",
    `Next: ${next}`,
    `If something does not work: sluice doctor --config ${shellQuoted(file)}`,
  ];
  terminal.say(lines.join("\n"));
}
