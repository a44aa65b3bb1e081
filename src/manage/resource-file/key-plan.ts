import type { Storage } from "../../gateway/storage.ts";
import { importProblem } from "../../keys/imported-token.ts";
import { fileKeyPrefix, isNewKeyId } from "../../keys/key.ts";
import type { HashedToken, StoredKey } from "../../keys/stored-key.ts";
import type { ManageContext } from "../context.ts";
import { ManageError } from "../error.ts";
import { groupIdOf } from "../groups.ts";
import { storedKeys } from "../key-search.ts";
import { createKey, editKey, keyInFile, revokeKey, type KeyEdit } from "../keys.ts";
import type { DesiredKey, FieldChange, PlannedChange } from "./desired-resources.ts";
import { fieldChanges, keyFields, type GroupNames } from "./fields.ts";

export async function plannedKeys(
  context: ManageContext,
  desired: readonly DesiredKey[] | null,
  prune: boolean,
  groupName: GroupNames,
): Promise<readonly PlannedChange[] | ManageError> {
  if (desired === null) return [];
  const changes: PlannedChange[] = [];
  const wanted = new Set<string>();
  const claimed = new Set(desired.map(({ id }) => id));
  for (const key of desired) {
    const before = await storedKey(context.storage, key, claimed);
    const planned = before === null ? [created(key, groupName)] : await changed(context, before, key, groupName);
    const isFine = planned.length === 0 && before?.revokedMs === null;
    const problem = isFine ? null : keyProblem(context, key, before);
    if (problem !== null) return problem;
    if (before !== null) wanted.add(before.id);
    changes.push(...planned);
  }
  const ordered = namesFreedFirst(changes);
  if (!prune || ordered instanceof ManageError) return ordered;
  const revocations: PlannedChange[] = [];
  for await (const key of storedKeys(context.storage)) if (!wanted.has(key.id)) revocations.push(revoked(key));
  return [...ordered, ...revocations];
}

/** A key that another entry has by its id gets the name of that entry. So an entry that only has the old name is a new key. */
async function storedKey({ keys }: Storage, { id, fields }: DesiredKey, claimed: ReadonlySet<string | null>): Promise<StoredKey | null> {
  if (id !== null) return keys.get(id);
  const found = await keys.find(fields.name);
  return found === null || found.name !== fields.name || claimed.has(found.id) ? null : found;
}

/** In the order of the file, except that a key gives up its name before another one takes it. */
function namesFreedFirst(changes: readonly PlannedChange[]): readonly PlannedChange[] | ManageError {
  const freedBy = new Map(changes.flatMap((one) => (nameChange(one)?.from == null ? [] : [[nameChange(one)?.from, one]])));
  const ordered = new Set<PlannedChange>();
  for (const one of changes) {
    const chain = new Set<PlannedChange>();
    for (let next: PlannedChange | undefined = one; next !== undefined && !ordered.has(next); next = freedBy.get(nameChange(next)?.to)) {
      if (chain.has(next)) return exchangedNames([...chain]);
      chain.add(next);
    }
    for (const each of [...chain].toReversed()) ordered.add(each);
  }
  return [...ordered];
}

function nameChange({ change: { fields } }: PlannedChange): FieldChange | undefined {
  return fields.find(({ field }) => field === "name");
}

function exchangedNames(circle: readonly PlannedChange[]): ManageError {
  const entries = circle.map(({ change: { name, line } }) => `${name}${line === null ? "" : ` (line ${line})`}`);
  return new ManageError(
    "conflict",
    `The keys ${entries.join(", ")} exchange names: apply the file with another name for one of them first.`,
  );
}

function keyProblem(context: ManageContext, { id, fields, token, line }: DesiredKey, before: StoredKey | null): ManageError | null {
  const inFile = context.fileKeys().find((key) => key.name === fields.name || key.id === id);
  if (inFile !== undefined) return keyInFile(context, inFile);
  const at = line === null ? "" : ` (line ${line})`;
  if (before !== null && before.revokedMs !== null) {
    return new ManageError("conflict", `Key ${fields.name}${at} was revoked, which cannot be undone: choose another name.`);
  }
  if (before === null && token === null) {
    const fix = "give its token as key: ${NAME}, or create it first with: sluice keys create";
    return new ManageError("invalid_value", `Key ${fields.name}${at} is new, and has no token: ${fix}.`);
  }
  if (fields.name.startsWith(fileKeyPrefix)) {
    return new ManageError("invalid_value", `The name of key ${fields.name}${at} must not begin with ${fileKeyPrefix}.`);
  }
  if (before === null && id !== null && !isNewKeyId(id)) {
    const fix = "copy it as sluice config export wrote it, or leave it out";
    return new ManageError("invalid_value", `The id ${id} of key ${fields.name}${at} is one that no key of the store can have: ${fix}.`);
  }
  if (typeof token === "string" && context.opensFileKey(token)) {
    return new ManageError("conflict", `The token of key ${fields.name}${at} already opens a key of the configuration: use another.`);
  }
  const problem = typeof token === "string" ? importProblem(token) : null;
  return problem === null ? null : new ManageError("invalid_value", `The token of key ${fields.name}${at} cannot be used: ${problem}.`);
}

function created({ id, fields, token, line }: DesiredKey, groupName: GroupNames): PlannedChange {
  const tokens = token === null ? [] : [{ field: "key", from: null, to: endOf(token) }];
  return {
    change: {
      what: "key",
      name: fields.name,
      action: "create",
      fields: [...fieldChanges({}, keyFields(fields, groupName)), ...tokens],
      line,
    },
    run: async (context, actor) => {
      if (token === null) return null;
      if (id === null && typeof token === "string") return createKey(context, fields, () => token, actor);
      const group = await groupIdOf(context, fields.group);
      if (group instanceof ManageError) return group;
      // A key that had this id before keeps it, and so its receipts; it may also have expired.
      return context.storage.keys.create(id ?? context.makeKeyToken().publicId, { ...fields, group }, hashed(context, token), actor);
    },
  };
}

async function changed(
  context: ManageContext,
  before: StoredKey,
  { fields, token, line }: DesiredKey,
  groupName: GroupNames,
): Promise<readonly PlannedChange[]> {
  const settings = fieldChanges(keyFields(before, groupName), keyFields(fields, groupName));
  const tokens = token === null ? [] : await tokenChanges(context, before, token);
  if (settings.length === 0 && tokens.length === 0) return [];
  const { name } = fields;
  const edit = editOf(fields, settings);
  return [
    {
      change: { what: "key", name, action: "change", fields: [...settings, ...tokens], line },
      run: async (inside, actor) => {
        const edited = settings.length === 0 ? null : await editKey(inside, before.id, edit, actor);
        if (edited instanceof ManageError || tokens.length === 0 || token === null) return edited;
        return inside.storage.keys.rotate(before.id, hashed(inside, token), overlapMs, actor);
      },
    },
  ];
}

/** Only what differs: an expiry that has passed is allowed to stay. */
function editOf(fields: DesiredKey["fields"], changes: readonly FieldChange[]): KeyEdit {
  const members = new Set(changes.map(({ field }) => memberOfField[field] ?? field));
  return Object.fromEntries(Object.entries(fields).filter(([member]) => members.has(member)));
}

const memberOfField: Readonly<Record<string, string>> = { expires: "expiresMs", long_audio: "splits", long_input: "splits" };

/** As with `sluice keys rotate`: clients have a day to change to the new token. */
const overlapMs = 86_400_000;

/** A token that is still valid, but being replaced, counts as another. */
async function tokenChanges(
  context: ManageContext,
  { id, tokens }: StoredKey,
  token: string | HashedToken,
): Promise<readonly FieldChange[]> {
  const { digest } = hashed(context, token);
  const [current] = await context.storage.keys.current([id]);
  if (current?.tokens.some((one) => one.digest === digest && one.expiresMs === null) === true) return [];
  return [{ field: "key", from: tokens[0]?.last4 ?? null, to: endOf(token) }];
}

function hashed({ digest }: ManageContext, token: string | HashedToken): HashedToken {
  return typeof token === "string" ? { digest: digest(token), last4: token.slice(-4) } : token;
}

function endOf(token: string | HashedToken): string {
  return typeof token === "string" ? token.slice(-4) : token.last4;
}

function revoked({ id, name }: StoredKey): PlannedChange {
  return {
    change: { what: "key", name, action: "revoke", fields: [], line: null },
    run: (context, actor) => revokeKey(context, id, actor),
  };
}
