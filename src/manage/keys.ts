import type { Actor } from "../gateway/storage.ts";
import { importProblem } from "../keys/imported-token.ts";
import { fileKeyPrefix, type Key } from "../keys/key.ts";
import { defaultKey, type KeyChange, type StoredKey, type HashedToken } from "../keys/stored-key.ts";
import { parseToken } from "../keys/token.ts";
import { revisionOf, type ManageContext, type NewToken } from "./context.ts";
import { changedMeanwhile, ManageError } from "./error.ts";
import { groupIdOf } from "./groups.ts";

/** What to change of a key: null clears a field, and an absent one stays as it is. The group is given by its id or its name. */
export type KeyEdit = KeyChange;

/** A key and its token, which cannot be shown again later. */
export interface KeyWithToken {
  readonly key: StoredKey;
  readonly token: string;
}

/** `readImport` returns a token that clients already use. It may ask a person, so it is called after everything else is valid. */
export async function createKey(
  context: ManageContext,
  fields: KeyEdit & { readonly name: string },
  readImport: (() => string | Promise<string>) | null,
  actor: Actor,
): Promise<KeyWithToken | ManageError> {
  const problem = nameProblem(context, fields.name) ?? expiryProblem(context, fields);
  if (problem !== null) return problem;
  const token = readImport === null ? context.makeKeyToken() : importedToken(context, await readImport());
  if (token instanceof ManageError) return token;
  const group = await groupIdOf(context, fields.group ?? null);
  if (group instanceof ManageError) return group;
  const key = { ...defaultKey, ...fields, splits: { ...defaultKey.splits, ...fields.splits }, group };
  return { key: await context.storage.keys.create(token.publicId, key, markOf(context, token.token), actor), token: token.token };
}

/** `isExpected` gets the current revision, and returns whether the change is meant for it. */
export async function editKey(
  context: ManageContext,
  id: string,
  edit: KeyEdit,
  actor: Actor,
  isExpected?: (revision: string) => boolean,
): Promise<StoredKey | ManageError> {
  const problem =
    fileKeyProblem(context, id) ?? expiryProblem(context, edit) ?? (edit.name === undefined ? null : nameProblem(context, edit.name));
  if (problem !== null) return problem;
  const group = edit.group === undefined ? undefined : await groupIdOf(context, edit.group);
  if (group instanceof ManageError) return group;
  const change = group === undefined ? edit : { ...edit, group };
  if (isExpected === undefined) return context.storage.keys.change(id, change, actor);
  return context.storage.together(async ({ keys }) => {
    const before = await keys.get(id);
    return before === null || isExpected(keyRevision(context, before)) ? keys.change(id, change, actor) : changedMeanwhile("key");
  });
}

/** A hash that changes with the key, and not with its use. */
export function keyRevision(context: ManageContext, key: StoredKey): string {
  return revisionOf(context, `key ${JSON.stringify({ ...key, lastUsedMs: null })}`);
}

/** The old token keeps working for `overlapMs`, so that clients can be moved to the new one. */
export async function rotateKey(context: ManageContext, id: string, overlapMs: number, actor: Actor): Promise<KeyWithToken | ManageError> {
  const problem = fileKeyProblem(context, id);
  if (problem !== null) return problem;
  const { token } = context.makeKeyToken();
  return { key: await context.storage.keys.rotate(id, markOf(context, token), overlapMs, actor), token };
}

export async function revokeKey(context: ManageContext, id: string, actor: Actor): Promise<StoredKey | ManageError> {
  return fileKeyProblem(context, id) ?? context.storage.keys.revoke(id, actor);
}

function fileKeyProblem(context: ManageContext, id: string): ManageError | null {
  const key = context.fileKeys().find((one) => one.id === id);
  return key === undefined ? null : keyInFile(context, key);
}

/** A key of the configuration can only be changed there. */
export function keyInFile({ definedAt }: ManageContext, { name }: Key): ManageError {
  return new ManageError(
    "in_file",
    `Key ${name} is defined in ${definedAt("keys", name)}: change it there. A running gateway reloads its file by itself.`,
  );
}

/** Why a name cannot be used. The store itself rejects names that another of its keys has. */
function nameProblem({ fileKeys, definedAt }: ManageContext, name: string): ManageError | null {
  if (name.startsWith(fileKeyPrefix)) {
    return new ManageError(
      "conflict",
      `A name must not begin with ${fileKeyPrefix}, which is reserved for keys of the configuration file.`,
      "name",
    );
  }
  const taken = fileKeys().find((key) => key.name === name || key.id === name);
  if (taken === undefined) return null;
  const place = definedAt("keys", taken.name);
  return new ManageError("conflict", `A key in the configuration already has this name (${place}): choose another.`, "name");
}

function expiryProblem({ wallMs }: ManageContext, { expiresMs }: KeyEdit): ManageError | null {
  if (expiresMs == null || expiresMs > wallMs()) return null;
  return new ManageError("invalid_value", "The expiry must be in the future. To end a key now, revoke it.", "expires_at");
}

/** An imported token that Sluice made keeps its public id; any other gets a new one. */
function importedToken(context: ManageContext, token: string): NewToken | ManageError {
  const problem = importProblem(token);
  if (problem !== null) return new ManageError("invalid_value", `The key cannot be imported: ${problem}.`, "import");
  if (context.opensFileKey(token)) {
    return new ManageError("conflict", "This token already opens a key: use another.", "import");
  }
  const parsed = parseToken(token);
  return { token, publicId: typeof parsed === "string" ? context.makeKeyToken().publicId : parsed.publicId };
}

function markOf({ digest }: ManageContext, token: string): HashedToken {
  return { digest: digest(token), last4: token.slice(-4) };
}
