import { z } from "zod";
import type { StoredKey } from "../../keys/stored-key.ts";
import { keyState, type KnownKey } from "../../manage/key-search.ts";
import { operations } from "../../operations/operation.ts";
import { limitsAnswer, shownLimits } from "../fields/limits-field.ts";
import { moment, momentOf, momentOrNull } from "../fields/scalars.ts";

export const operation = z.enum(operations);
export const offOrSplit = z.enum(["off", "split"]);

/** A key as answers show it: everything but what opens it. */
export const keyAnswer = z.strictObject({
  id: z.string(),
  name: z.string(),
  source: z.enum(["store", "file"]).describe("Where it is kept. Keys of the configuration file are changed there."),
  state: z.enum(["active", "expired", "revoked"]),
  owner: z.string().nullable(),
  note: z.string().nullable(),
  models: z.array(z.string()).nullable().describe("Patterns with `*`; null means every model."),
  operations: z.array(operation).nullable(),
  channels: z.array(z.string()).nullable().describe("Names or tags, patterns with `*`; null means every channel."),
  limits: limitsAnswer,
  long_audio: offOrSplit,
  long_input: offOrSplit,
  expires_at: moment.nullable(),
  created_at: moment.nullable(),
  revoked_at: moment.nullable(),
  last_used_at: moment.nullable().describe("To the minute."),
  tokens: z.array(z.strictObject({ last4: z.string(), created_at: moment, expires_at: moment.nullable() })),
});

export type KeyView = z.input<typeof keyAnswer>;

export function shownKey(known: KnownKey, nowMs: number): KeyView {
  const { key, source } = known;
  const life = source === "store" ? storedLife(known.key) : fileLife;
  return {
    id: key.id,
    name: key.name,
    source,
    state: keyState(known, nowMs),
    models: key.models === null ? null : [...key.models],
    operations: key.operations === null ? null : [...key.operations],
    channels: key.channels === null ? null : [...key.channels],
    limits: shownLimits(key.limits),
    long_audio: key.splits.audio ? "split" : "off",
    long_input: key.splits.input ? "split" : "off",
    expires_at: momentOrNull(key.expiresMs),
    ...life,
  };
}

type Life = Pick<KeyView, "owner" | "note" | "created_at" | "revoked_at" | "last_used_at" | "tokens">;

const fileLife: Life = { owner: null, note: null, created_at: null, revoked_at: null, last_used_at: null, tokens: [] };

function storedLife({ owner, note, createdMs, revokedMs, lastUsedMs, tokens }: StoredKey): Life {
  return {
    owner,
    note,
    created_at: momentOf(createdMs),
    revoked_at: momentOrNull(revokedMs),
    last_used_at: momentOrNull(lastUsedMs),
    tokens: tokens.map((token) => ({
      last4: token.last4,
      created_at: momentOf(token.createdMs),
      expires_at: momentOrNull(token.expiresMs),
    })),
  };
}
