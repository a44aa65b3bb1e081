import type { StoredKey } from "../../keys/stored-key.ts";
import { parseToken } from "../../keys/token.ts";
import { unlimited, type Limits } from "../../limits/limits.ts";
import { keyByIdOrName, keyPage, type KnownKey } from "../../manage/key-search.ts";
import { budgetSpending, totalSpentNanos } from "../../manage/key-spending.ts";
import { keyView, limitsView } from "../../manage/key-view.ts";
import { createKey, editKey, keyInFile, revokeKey, rotateKey, type KeyEdit } from "../../manage/keys.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import type { KeyFields } from "./key-options.ts";
import { budgetText, keyFacts, keyTable, limitsFacts } from "./key-view.ts";
import type { KeysRequest } from "./keys-arguments.ts";
import { changedLimits, type LimitChange } from "./limit-change.ts";
import { json, localMinute, money, shown } from "../shown-text.ts";
import type { OpenStore, CommandContext } from "../command-context.ts";
import { CommandError, exitCodes, orThrow } from "../command-error.ts";

type KeysRequestOf<Act extends KeysRequest["act"]> = Extract<KeysRequest, { readonly act: Act }>;

export async function runKeys(request: KeysRequest, store: OpenStore, context: CommandContext): Promise<void> {
  switch (request.act) {
    case "create":
      return create(request, store, context);
    case "list":
      return list(request, store, context);
    case "show":
      return show(request, store, context);
    case "rotate":
      return rotate(request, store, context);
    case "revoke":
      return revoke(request, store, context);
    case "limits":
      return limits(request, store, context);
    case "edit":
      return edit(request, store, context);
  }
}

async function create(request: KeysRequestOf<"create">, store: OpenStore, context: CommandContext): Promise<void> {
  const { name, fields, imports } = request;
  if (parseToken(name) !== "foreign") {
    throw new CommandError(
      "This is a key, not a name. To import a key, give it a name and send it on standard input: sluice keys create NAME --import",
      exitCodes.usage,
    );
  }
  const edit = { ...editOf(fields, context.wallMs()), name, limits: limitsAfter(unlimited, request.limits) };
  const { key, token } = orThrow(await createKey(store, edit, imports ? () => readImport(context) : null, context.actor));
  if (imports) return printKey(key, request.json, context, `Imported key ${key.name} (${key.id}).`);
  showToken(key, token, request.json, context, `Created key ${key.name} (${key.id}).`);
}

async function readImport({ terminal }: CommandContext): Promise<string> {
  return (await terminal.secret("Key to import (not shown): ")).trim();
}

async function list(
  { search, revoked, limit, json: asJson }: KeysRequestOf<"list">,
  store: OpenStore,
  context: CommandContext,
): Promise<void> {
  const { terminal } = context;
  const found: KnownKey[] = [];
  let after: string | null = null;
  // One more than the limit shows whether there are more.
  while (found.length <= limit) {
    const page = await keyPage(store, { search, revoked, after, limit: Math.min(pageMax, limit + 1 - found.length) });
    found.push(...page.keys);
    after = page.next;
    if (after === null) break;
  }
  const keys = found.slice(0, limit);
  const nowMs = context.wallMs();
  if (asJson) terminal.print(json(keys.map((key) => keyView(key, nowMs))));
  else if (keys.length > 0) terminal.print(keyTable(keys, nowMs));
  else terminal.say(search === null ? "There are no keys. Create one with: sluice keys create NAME" : "No key matches.");
  if (found.length > limit) terminal.say(`There are more keys: raise --limit (now ${limit}), or narrow the list with --search.`);
}

const pageMax = 200;

async function show(request: KeysRequestOf<"show">, store: OpenStore, context: CommandContext): Promise<void> {
  const known = await knownKey(request.key, store);
  const nowMs = context.wallMs();
  const nanos = await spent(known, store);
  if (request.json) return context.terminal.print(json({ ...keyView(known, nowMs), spent: dollarsNumber(nanos) }));
  const { budget } = known.key.limits;
  context.terminal.print(keyFacts(known, nowMs, budget === null ? null : `${money(nanos)} of ${budgetText(budget)}`));
}

/** Spent in the current period of the key's budget; in all, if it has no budget. */
async function spent({ key }: KnownKey, store: OpenStore): Promise<number> {
  const own = (await budgetSpending(store, key)).find(({ models }) => models === null);
  return own?.spentNanos ?? totalSpentNanos(store, key);
}

async function rotate({ key, overlapMs, json: asJson }: KeysRequestOf<"rotate">, store: OpenStore, context: CommandContext): Promise<void> {
  const { id } = await storedKey(key, store);
  const { key: rotated, token } = orThrow(await rotateKey(store, id, overlapMs, context.actor));
  const old =
    overlapMs === 0 ? "The old token no longer works." : `The old token works until ${localMinute(context.wallMs() + overlapMs)}.`;
  showToken(rotated, token, asJson, context, `Rotated key ${rotated.name} (${rotated.id}). ${old}`);
}

async function revoke({ key, yes, json: asJson }: KeysRequestOf<"revoke">, store: OpenStore, context: CommandContext): Promise<void> {
  const { id, name, revokedMs } = await storedKey(key, store);
  if (revokedMs === null && !yes && context.terminal.isInteractive) {
    const agreed = await context.terminal.confirm(
      `Revoke key ${shown(name)} (${shown(id)})? Its running calls end, and this cannot be undone.`,
    );
    if (!agreed) throw new CommandError("Nothing was changed.");
  }
  const revoked = orThrow(await revokeKey(store, id, context.actor));
  printKey(revoked, asJson, context, revokedMs === null ? `Revoked key ${name} (${id}).` : `Key ${name} (${id}) is already revoked.`);
}

async function limits({ key, change, json: asJson }: KeysRequestOf<"limits">, store: OpenStore, context: CommandContext): Promise<void> {
  if (change === null) {
    const known = await knownKey(key, store);
    return context.terminal.print(asJson ? json(limitsView(known.key.limits)) : limitsFacts(known.key.limits));
  }
  const { id, limits: before } = await storedKey(key, store);
  const changed = orThrow(await editKey(store, id, { limits: limitsAfter(before, change) }, context.actor));
  context.terminal.print(asJson ? json(limitsView(changed.limits)) : limitsFacts(changed.limits));
}

async function edit({ key, fields, json: asJson }: KeysRequestOf<"edit">, store: OpenStore, context: CommandContext): Promise<void> {
  if (Object.keys(fields).length === 0) {
    throw new CommandError("Nothing to change: give an option, such as --name. See sluice keys edit --help", exitCodes.usage);
  }
  const { id } = await storedKey(key, store);
  const changed = orThrow(await editKey(store, id, editOf(fields, context.wallMs()), context.actor));
  printKey(changed, asJson, context, keyFacts({ source: "store", key: changed }, context.wallMs(), null));
}

async function knownKey(idOrName: string, store: OpenStore): Promise<KnownKey> {
  const known = await keyByIdOrName(store, idOrName);
  if (known !== null) return known;
  throw new CommandError(`There is no key ${JSON.stringify(shown(idOrName))}. See sluice keys list --revoked.`);
}

/** Finds a key that can be changed: one of the store. */
async function storedKey(idOrName: string, store: OpenStore): Promise<StoredKey> {
  const known = await knownKey(idOrName, store);
  return orThrow(known.source === "store" ? known.key : keyInFile(store, known.key));
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

function printKey(key: StoredKey, asJson: boolean, { terminal, wallMs }: CommandContext, text: string): void {
  // Tables are escaped already; a sentence with a name in it is not.
  terminal.print(asJson ? json(keyView({ source: "store", key }, wallMs())) : text.split("\n").map(shown).join("\n"));
}

/** Prints the token alone to standard output, for scripts, and the text for people to standard error. */
function showToken(key: StoredKey, token: string, asJson: boolean, { terminal, wallMs }: CommandContext, text: string): void {
  if (asJson) {
    const { id, name, ...rest } = keyView({ source: "store", key }, wallMs());
    return terminal.print(json({ id, name, key: token, ...rest }));
  }
  terminal.say(`${shown(text)}\nThe key is shown only once; store it somewhere safe:\n`);
  terminal.print(token);
  terminal.say("\nA running gateway accepts it within a second.");
}
