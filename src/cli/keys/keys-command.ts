import { parseToken } from "../../keys/token.ts";
import { unlimited, type Limits } from "../../limits/limits.ts";
import { limitsOfView, type KeyView } from "../../manage/key-view.ts";
import type { KeyEdit } from "../../manage/keys.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import type { KeyFields } from "./key-options.ts";
import { budgetText, keyFacts, keyTable, limitsFacts } from "./key-view.ts";
import type { KeysRequest } from "./keys-arguments.ts";
import { changedLimits, type LimitChange } from "./limit-change.ts";
import { json, localMinute, money, shown } from "../shown-text.ts";
import type { CommandSurroundings } from "../command-context.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import type { KeyAndToken, Management } from "../management/management.ts";

type KeysRequestOf<Act extends KeysRequest["act"]> = Extract<KeysRequest, { readonly act: Act }>;

export async function runKeys(request: KeysRequest, management: Management, context: CommandSurroundings): Promise<void> {
  switch (request.act) {
    case "create":
      return create(request, management, context);
    case "list":
      return list(request, management, context);
    case "show":
      return show(request, management, context);
    case "rotate":
      return rotate(request, management, context);
    case "revoke":
      return revoke(request, management, context);
    case "limits":
      return limits(request, management, context);
    case "edit":
      return edit(request, management, context);
  }
}

async function create(request: KeysRequestOf<"create">, management: Management, context: CommandSurroundings): Promise<void> {
  const { name, fields, imports } = request;
  if (parseToken(name) !== "foreign") {
    throw new CommandError(
      "This is a key, not a name. To import a key, give it a name and send it on standard input: sluice keys create NAME --import",
      exitCodes.usage,
    );
  }
  const edit = { ...editOf(fields, context.wallMs()), name, limits: limitsAfter(unlimited, request.limits) };
  const created = await management.createKey(edit, imports ? () => readImport(context) : null);
  const { key } = created;
  if (imports) return printKey(key, request.json, context, `Imported key ${key.name} (${key.id}).`);
  showToken(created, request.json, context, `Created key ${key.name} (${key.id}).`);
}

async function readImport({ terminal }: CommandSurroundings): Promise<string> {
  return (await terminal.secret("Key to import (not shown): ")).trim();
}

async function list(
  { search, revoked, limit, json: asJson }: KeysRequestOf<"list">,
  management: Management,
  context: CommandSurroundings,
): Promise<void> {
  const { terminal } = context;
  const found: KeyView[] = [];
  let after: string | null = null;
  // One more than the limit shows whether there are more.
  while (found.length <= limit) {
    const page: Awaited<ReturnType<Management["keyPage"]>> = await management.keyPage({
      search,
      revoked,
      after,
      limit: Math.min(pageMax, limit + 1 - found.length),
    });
    found.push(...page.keys);
    after = page.next;
    if (after === null) break;
  }
  const keys = found.slice(0, limit);
  if (asJson) terminal.print(json(keys));
  else if (keys.length > 0) terminal.print(keyTable(keys));
  else terminal.say(search === null ? "There are no keys. Create one with: sluice keys create NAME" : "No key matches.");
  if (found.length > limit) terminal.say(`There are more keys: raise --limit (now ${limit}), or narrow the list with --search.`);
}

const pageMax = 200;

async function show(request: KeysRequestOf<"show">, management: Management, context: CommandSurroundings): Promise<void> {
  const key = await knownKey(request.key, management);
  const { nanos, budget } = await management.keySpending(key);
  if (request.json) return context.terminal.print(json({ ...key, spent: dollarsNumber(nanos) }));
  context.terminal.print(keyFacts(key, budget === null ? null : `${money(nanos)} of ${budgetText(budget)}`));
}

async function rotate(
  { key, overlapMs, json: asJson }: KeysRequestOf<"rotate">,
  management: Management,
  context: CommandSurroundings,
): Promise<void> {
  const { id } = await knownKey(key, management);
  const rotated = await management.rotateKey(id, overlapMs);
  const { name } = rotated.key;
  const old =
    overlapMs === 0 ? "The old token no longer works." : `The old token works until ${localMinute(context.wallMs() + overlapMs)}.`;
  showToken(rotated, asJson, context, `Rotated key ${name} (${id}). ${old}`);
}

async function revoke(
  { key, yes, json: asJson }: KeysRequestOf<"revoke">,
  management: Management,
  context: CommandSurroundings,
): Promise<void> {
  const { id, name, revoked_at: before, source } = await knownKey(key, management);
  if (before === null && source === "store" && !yes && context.terminal.isInteractive) {
    const agreed = await context.terminal.confirm(
      `Revoke key ${shown(name)} (${shown(id)})? Its running calls end, and this cannot be undone.`,
    );
    if (!agreed) throw new CommandError("Nothing was changed.");
  }
  const revoked = await management.revokeKey(id);
  printKey(revoked, asJson, context, before === null ? `Revoked key ${name} (${id}).` : `Key ${name} (${id}) is already revoked.`);
}

async function limits(
  { key, change, json: asJson }: KeysRequestOf<"limits">,
  management: Management,
  context: CommandSurroundings,
): Promise<void> {
  const known = await knownKey(key, management);
  const after = change === null ? known : await management.changeKeyLimits(known.id, (before) => limitsAfter(before, change));
  context.terminal.print(asJson ? json(after.limits) : limitsFacts(limitsOfView(after.limits)));
}

async function edit(
  { key, fields, json: asJson }: KeysRequestOf<"edit">,
  management: Management,
  context: CommandSurroundings,
): Promise<void> {
  if (Object.keys(fields).length === 0) {
    throw new CommandError("Nothing to change: give an option, such as --name. See sluice keys edit --help", exitCodes.usage);
  }
  const { id } = await knownKey(key, management);
  const changed = await management.editKey(id, editOf(fields, context.wallMs()));
  printKey(changed, asJson, context, keyFacts(changed, null));
}

async function knownKey(idOrName: string, management: Management): Promise<KeyView> {
  const known = await management.key(idOrName);
  if (known !== null) return known;
  throw new CommandError(`There is no key ${JSON.stringify(shown(idOrName))}. See sluice keys list --revoked.`);
}

function editOf({ expires, longAudio, longInput, ...fields }: KeyFields, nowMs: number): KeyEdit {
  return {
    ...fields,
    ...(expires === undefined ? {} : { expiresMs: expires === null ? null : expires.kind === "in" ? nowMs + expires.ms : expires.ms }),
    ...(longAudio === undefined && longInput === undefined
      ? {}
      : {
          splits: {
            ...(longAudio === undefined ? {} : { audio: longAudio }),
            ...(longInput === undefined ? {} : { input: longInput }),
          },
        }),
  };
}

function limitsAfter(before: Limits, change: LimitChange | null): Limits {
  const after = change === null ? before : changedLimits(before, change);
  if (typeof after === "string") throw new CommandError(after, exitCodes.usage);
  return after;
}

function printKey(key: KeyView, asJson: boolean, { terminal }: CommandSurroundings, text: string): void {
  // Tables are escaped already; a sentence with a name in it is not.
  terminal.print(asJson ? json(key) : text.split("\n").map(shown).join("\n"));
}

/** Prints the token alone to standard output, for scripts, and the text for people to standard error. */
function showToken({ key, token }: KeyAndToken, asJson: boolean, { terminal }: CommandSurroundings, text: string): void {
  if (asJson) {
    const { id, name, ...rest } = key;
    return terminal.print(json({ id, name, key: token, ...rest }));
  }
  terminal.say(`${shown(text)}\nThe key is shown only once; store it somewhere safe:\n`);
  terminal.print(token);
  terminal.say("\nA running gateway accepts it within a second.");
}
