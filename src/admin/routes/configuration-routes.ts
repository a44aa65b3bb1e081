import { z } from "zod";
import { AdminError } from "../admin-error.ts";
import { route, type AdminRoute } from "../route.ts";

export const configurationAnswer = z.strictObject({
  file: z.string().nullable().describe("Null if the environment alone configures the gateway."),
  settings: z.array(
    z.strictObject({
      path: z.string(),
      value: z.unknown(),
      origin: z.enum(["file", "environment", "default"]),
      line: z.int().nullable(),
      variables: z.array(z.string()),
      otherwise: z.string().nullable().describe("What happens without a value, in words."),
      about: z.string(),
    }),
  ),
});

/** The configuration, as `sluice config explain` shows it. */
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
        settings: settings.map(({ path, value, origin, line, variables, otherwise, about }) => ({
          path,
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
];
