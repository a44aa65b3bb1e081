import { z } from "zod";
import { presets } from "../../dialects/presets.ts";
import { operation } from "../views/key-view.ts";
import { route, type AdminRoute } from "../route.ts";

/** The providers that are known by name. */
export const providersRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/providers",
    access: "viewer",
    summary: "Lists the providers that a channel can name, with their addresses.",
    answer: z.strictObject({
      providers: z.array(
        z.strictObject({
          name: z.string(),
          base_url: z.string().describe("May contain `{resource}` or `{region}`, which the channel has to set."),
          needs_key: z.boolean(),
          operations: z.array(operation),
        }),
      ),
    }),
    handle: ({ services }) => ({
      providers: presets
        .filter(({ local }) => !local || services.hasLocalModels())
        .map(({ name, baseUrl, needsKey, operations }) => ({ name, base_url: baseUrl, needs_key: needsKey, operations: [...operations] })),
    }),
  }),
];
