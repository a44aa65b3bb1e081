import { z } from "zod";
import type { Splits } from "../../keys/key.ts";
import { importProblem } from "../../keys/imported-token.ts";
import { usualKey, type KeyChange, type TokenMark } from "../../keys/stored-key.ts";
import { parseToken } from "../../keys/token.ts";
import { keyById, keyPage } from "../views/key-search.ts";
import { keyStanding, keyStandingAnswer } from "../views/key-standing.ts";
import { keyAnswer, offOrSplit, operation, shownKey, type KeyView } from "../views/key-view.ts";
import { limitsField } from "../fields/limits-field.ts";
import { momentField } from "../fields/moment-field.ts";
import { pageCursor, pageLimit } from "../fields/page-field.ts";
import { invalid, notFound, Refusal } from "../refusal.ts";
import { route, type Route } from "../route.ts";
import type { Services } from "../services.ts";
import { line, prose } from "../fields/text-field.ts";

const fileIds = "file:";
const hour = 3600;

const patterns = z.array(line(256)).min(1).max(1000).nullable();
const fields = {
  name: line(200).refine((name) => !name.startsWith(fileIds), `must not begin with ${fileIds}`),
  owner: line(200).nullable().optional(),
  note: prose(10_000).nullable().optional(),
  models: patterns.optional().describe("The models it may ask for, patterns with `*`; null means every model."),
  operations: z.array(operation).min(1).max(operation.options.length).nullable().optional(),
  channels: patterns.optional().describe("The channels it may be served by, by name or tag, patterns with `*`; null means every one."),
  limits: limitsField.optional().describe("What it may use. Replaced as a whole; `{}` is without limits."),
  long_audio: offOrSplit.optional(),
  long_input: offOrSplit.optional(),
  expires_at: momentField.nullable().optional().describe("From this moment on the key is refused; null is never."),
};
const withToken = keyAnswer.extend({
  token: z.string().nullable().describe("What clients send. It is shown this once, and not at all where it was brought along."),
});

/** Who may call. */
export const keysRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/admin/api/keys",
    access: "viewer",
    summary: "Lists the keys, those of the configuration file first.",
    query: z.strictObject({
      search: line(200).optional().describe("Part of a name, an owner, a note or an id, in any case, taken literally."),
      revoked: z.enum(["true", "false"]).default("false").describe("Whether revoked keys are listed too."),
      after: pageCursor.optional(),
      limit: pageLimit,
    }),
    answer: z.strictObject({ keys: z.array(keyAnswer), next: z.string().nullable() }),
    handle: async ({ query: { search, revoked, after, limit }, services }) => {
      const page = await keyPage(services, { search: search ?? null, revoked: revoked === "true", after: after ?? null, limit });
      const nowMs = services.wallMs();
      return { keys: page.keys.map((known) => shownKey(known, nowMs)), next: page.next };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/keys/{id}",
    access: "viewer",
    summary: "One key.",
    answer: keyAnswer,
    handle: async ({ params: { id }, services }) => {
      const known = await keyById(services, id);
      return known === null ? notFound("key") : shownKey(known, services.wallMs());
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/keys/{id}/standing",
    access: "viewer",
    summary: "What is spent of the budgets of a key, as far as its receipts have arrived.",
    answer: keyStandingAnswer,
    handle: async ({ params: { id }, services }) => {
      const known = await keyById(services, id);
      return known === null ? notFound("key") : keyStanding(known.key, services);
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/keys",
    access: "admin",
    summary: "Makes a key, or takes in one that clients use already. A token that is made is shown this once.",
    body: z.strictObject({
      ...fields,
      import: z.string().max(4096).optional().describe("An existing key of at least 32 characters, which goes on opening the gateway."),
    }),
    answer: withToken,
    status: 201,
    handle: async ({ body, services, actor }) => {
      const taken = nameTaken(services, body.name);
      if (taken !== null) return taken;
      if (body.expires_at != null && body.expires_at <= services.wallMs()) return pastExpiry;
      const opened = body.import === undefined ? services.makeKeyToken() : imported(body.import, services);
      if (opened instanceof Refusal) return opened;
      const key = { ...usualKey, ...changeOf(body, usualKey.splits), name: body.name };
      const created = await services.storage.keys.create(opened.publicId, key, markOf(opened.token, services), actor);
      const shown = shownKey({ source: "store", key: created }, services.wallMs());
      return { ...shown, token: body.import === undefined ? opened.token : null };
    },
  }),
  route({
    method: "PATCH",
    path: "/admin/api/keys/{id}",
    access: "admin",
    summary: "Changes what a key may do. Fields that are not given stay as they are.",
    body: z.strictObject({ ...fields, name: fields.name.optional() }),
    answer: keyAnswer,
    handle: async ({ params: { id }, body, services, actor }) => {
      if (isOfFile(services, id)) return ofFile;
      if (body.expires_at != null && body.expires_at <= services.wallMs()) return pastExpiry;
      const half = (body.long_audio === undefined) !== (body.long_input === undefined);
      const change = changeOf(body, half ? ((await services.storage.keys.get(id))?.splits ?? usualKey.splits) : usualKey.splits);
      if (Object.keys(change).length === 0) return invalid(null, `Nothing to change: give one of ${Object.keys(fields).join(", ")}.`);
      const taken = change.name === undefined ? null : nameTaken(services, change.name);
      if (taken !== null) return taken;
      return stored(services, services.storage.keys.change(id, change, actor));
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/keys/{id}/rotate",
    access: "admin",
    summary: "Gives a key a new token, which is shown this once. The token before it goes on for a while.",
    body: z.strictObject({
      overlap_seconds: z
        .int()
        .min(0)
        .max(7 * 24 * hour)
        .default(24 * hour)
        .describe("How long the old token still opens the key."),
    }),
    answer: withToken,
    handle: async ({ params: { id }, body, services, actor }) => {
      if (isOfFile(services, id)) return ofFile;
      const { token } = services.makeKeyToken();
      const rotated = services.storage.keys.rotate(id, markOf(token, services), body.overlap_seconds * 1000, actor);
      return { ...(await stored(services, rotated)), token };
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/keys/{id}/revoke",
    access: "admin",
    summary: "Revokes a key for good. Its calls that are under way are ended.",
    body: z.strictObject({}),
    answer: keyAnswer,
    handle: async ({ params: { id }, services, actor }) =>
      isOfFile(services, id) ? ofFile : stored(services, services.storage.keys.revoke(id, actor)),
  }),
];

type Fields = z.output<z.ZodObject<Omit<typeof fields, "name">>> & { readonly name?: string | undefined };

/** Only what was given: `null` says something, and absence does not. Of what is split both halves are kept together. */
function changeOf(given: Fields, splits: Splits): KeyChange {
  const { name, owner, note, models, operations, channels, limits, long_audio, long_input, expires_at } = given;
  return {
    ...(name === undefined ? {} : { name }),
    ...(owner === undefined ? {} : { owner }),
    ...(note === undefined ? {} : { note }),
    ...(models === undefined ? {} : { models }),
    ...(operations === undefined ? {} : { operations }),
    ...(channels === undefined ? {} : { channels }),
    ...(limits === undefined ? {} : { limits }),
    ...(expires_at === undefined ? {} : { expiresMs: expires_at }),
    ...(long_audio === undefined && long_input === undefined
      ? {}
      : { splits: { audio: splitOr(long_audio, splits.audio), input: splitOr(long_input, splits.input) } }),
  };
}

function splitOr(given: "off" | "split" | undefined, before: boolean): boolean {
  return given === undefined ? before : given === "split";
}

/** Whose public id it bears, where we made it; a made-up one otherwise. */
function imported(token: string, services: Services): { readonly token: string; readonly publicId: string } | Refusal {
  const problem = importProblem(token);
  if (problem !== null) return invalid("import", `The field 'import': ${problem}.`);
  if (services.opensFileKey(token)) return known;
  const parsed = parseToken(token);
  return { token, publicId: typeof parsed === "string" ? services.makeKeyToken().publicId : parsed.publicId };
}

function markOf(token: string, services: Services): TokenMark {
  return { digest: services.digest(token), last4: token.slice(-4) };
}

async function stored(services: Services, changed: ReturnType<Services["storage"]["keys"]["revoke"]>): Promise<KeyView> {
  return shownKey({ source: "store", key: await changed }, services.wallMs());
}

function isOfFile(services: Services, id: string): boolean {
  return services.fileKeys().some((key) => key.id === id);
}

function nameTaken(services: Services, name: string): Refusal | null {
  const taken = services.fileKeys().some((key) => key.name === name || key.id === name);
  return taken ? new Refusal(409, "conflict", "A key of the configuration file has that name: choose another.", "name") : null;
}

const known = new Refusal(409, "conflict", "This token opens a key already: take another.", "import");
const ofFile = new Refusal(409, "in_file", "This key stands in the configuration file: change it there, and the gateway reads it again.");

const pastExpiry = invalid("expires_at", "The field 'expires_at': must lie in the future. To end a key now, revoke it.");
