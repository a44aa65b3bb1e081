import { z } from "zod";
import { ManageError } from "../../manage/error.ts";
import { applyResources } from "../../manage/resource-file/apply.ts";
import type { DesiredResources, ResourceChange, ResourceContext } from "../../manage/resource-file/desired-resources.ts";
import { exportedResources, exportProblem, resourceSections } from "../../manage/resource-file/exported-resources.ts";
import { plannedChanges } from "../../manage/resource-file/planned-changes.ts";
import { storedSettings } from "../../manage/resource-file/stored-settings.ts";
import { AdminError, adminErrorOf, invalid } from "../admin-error.ts";
import { line } from "../fields/scalars.ts";
import { route, type AdminRoute } from "../route.ts";
import type { Services } from "../services.ts";

export const configurationAnswer = z.strictObject({
  file: z.string().nullable().describe("Null if the environment alone configures the gateway."),
  settings: z.array(
    z.strictObject({
      path: z.string(),
      numbered: z.string().describe("The same with numbers in place of names, as in messages about the file."),
      value: z.unknown(),
      origin: z.enum(["file", "environment", "default"]),
      line: z.int().nullable(),
      variables: z.array(z.string()),
      otherwise: z.string().nullable().describe("What happens without a value, in words."),
      about: z.string(),
    }),
  ),
});

const resourceFile = {
  file: line(1000).default("the resource file").describe("Its name, for messages and the audit log."),
  text: z.string().describe("YAML or JSON, as `sluice config export` prints it."),
  variables: z
    .record(z.string().max(200), z.string())
    .default({})
    .describe("The values of the variables in it. Those of the gateway's own environment are not used."),
  prune: z.boolean().default(false).describe("Also removes, or revokes, what the file does not list, in the lists that it has."),
};

type SentResources = { readonly [Name in "file" | "text" | "variables"]: z.output<(typeof resourceFile)[Name]> };

const changesAnswer = z.strictObject({
  changes: z.array(
    z.strictObject({
      what: z.enum(["channel", "group", "key", "price"]),
      name: z.string(),
      action: z.enum(["create", "change", "remove", "revoke"]),
      fields: z.array(z.strictObject({ field: z.string(), from: z.unknown(), to: z.unknown() })),
      line: z.int().nullable(),
    }),
  ),
});

/** The configuration, as `sluice config explain` shows it, and the contents of the store as a resource file. */
export const configurationRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/configuration",
    access: "viewer",
    summary: "Shows every setting with its value and where that comes from, without secrets, as the file says now.",
    answer: configurationAnswer,
    handle: async ({ services }) => {
      const { file, settings, problem } = await services.configuration();
      if (problem !== null) return new AdminError(409, "conflict", `The configuration file has changed and cannot be used. ${problem}`);
      return {
        file,
        settings: settings.map(({ path, numbered, value, origin, line, variables, otherwise, about }) => ({
          path,
          numbered,
          value: value ?? null,
          origin,
          line,
          variables: [...variables],
          otherwise,
          about,
        })),
      };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/configuration/store",
    access: "viewer",
    summary:
      "Shows what the store says about channels, groups, keys and prices in the same way, without secrets: 200 groups and keys at most.",
    query: z.strictObject({ path: line(1000).optional().describe("The setting that is wanted, such as `keys.laptop`.") }),
    answer: z.strictObject({
      rows: z.array(
        z.strictObject({
          path: z.string(),
          value: z.unknown(),
          overridden: z.string().nullable().describe("Where the file says otherwise, so that this is not used."),
        }),
      ),
      notes: z.array(z.string()).describe("What was left out, and names that both the file and the store have."),
    }),
    handle: async ({ query: { path }, services }) => {
      const { rows, notes } = await storedSettings(services, path === undefined ? [] : [path]);
      return { rows: [...rows], notes: notes.map(services.told.asTyped) };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/resources",
    access: "admin",
    summary: "Shows the channels, groups, keys and prices of the store as a resource file, with variables in place of secrets.",
    query: z.strictObject({
      only: line(100).optional().describe("Some of `channels`, `groups`, `keys` and `prices`, with commas between them."),
      key_variables: z
        .enum(["true", "false"])
        .default("false")
        .describe("Variables in place of the hashes of keys, which fit this store only."),
    }),
    answer: z.strictObject({
      document: z.record(z.string(), z.unknown()),
      variables: z.record(z.string(), z.string()).describe("What belongs into each variable."),
    }),
    handle: async ({ query: { only, key_variables: variables }, services }) => {
      const wanted = only?.split(",") ?? resourceSections;
      const sections = resourceSections.filter((section) => wanted.includes(section));
      if (sections.length !== wanted.length)
        return invalid("only", `Give some of ${resourceSections.join(", ")}, with commas between them.`);
      const options = { sections, keyVariables: variables === "true" };
      const problem = await exportProblem(services, options, exportedKeysMax);
      if (problem !== null) return adminErrorOf(problem);
      const exported = await exportedResources(services, options);
      return { document: { ...exported.document }, variables: Object.fromEntries(exported.variables) };
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/resources/diff",
    access: "admin",
    summary: "Compares a resource file with the store, and lists what `apply` would change.",
    body: z.strictObject(resourceFile),
    answer: changesAnswer,
    handle: async ({ body, services }) => {
      const desired = await desiredIn(body, services);
      if (desired instanceof AdminError) return desired;
      const planned = await plannedChanges(resourceContext(services), desired, body.prune);
      return planned instanceof ManageError ? adminErrorOf(planned) : shownChanges(planned.map(({ change }) => change));
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/resources/apply",
    access: "admin",
    summary: "Makes the store say what a resource file says: all of it, or nothing if something is wrong. Lists what changed.",
    body: z.strictObject({ ...resourceFile, dry_run: z.boolean().default(false).describe("Makes the changes and takes them back.") }),
    answer: changesAnswer,
    handle: async ({ body, services, actor }) => {
      const desired = await desiredIn(body, services);
      if (desired instanceof AdminError) return desired;
      const options = { prune: body.prune, dryRun: body.dry_run, file: body.file };
      const changes = await applyResources(resourceContext(services), desired, options, actor);
      return changes instanceof ManageError ? adminErrorOf(changes) : shownChanges(changes);
    },
  }),
];

/** The answer is built in memory. */
const exportedKeysMax = 20_000;

async function desiredIn({ file, text, variables }: SentResources, { resources }: Services): Promise<DesiredResources | AdminError> {
  const reading = await resources.read(file, text, variables);
  return "problems" in reading ? invalid("text", reading.problems.join("\n")) : reading.desired;
}

function resourceContext(services: Services): ResourceContext {
  return { ...services, channels: { ...services.channels, unseal: services.resources.unseal } };
}

function shownChanges(changes: readonly ResourceChange[]): z.input<typeof changesAnswer> {
  return { changes: changes.map(({ fields, ...change }) => ({ ...change, fields: [...fields] })) };
}
