import { z } from "zod";
import { AdminError, invalid } from "../admin-error.ts";
import { route, type AdminRoute } from "../route.ts";
import { labMode, labRunAnswer, labScenarioAnswer, shownRun, shownScenario } from "../views/lab-view.ts";

const callsMax = 200;

/** The fault lab. Its calls are made by the gateway itself, on channels of their own, and are in no receipt and no sum. */
export const labRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/lab/scenarios",
    access: "admin",
    summary: "Lists the faults that can be tried, and what should happen then.",
    answer: z.strictObject({ scenarios: z.array(labScenarioAnswer) }),
    handle: ({ services }) => ({ scenarios: services.lab.scenarios.map(shownScenario) }),
  }),
  route({
    method: "GET",
    path: "/admin/api/lab/runs",
    access: "admin",
    summary: "Lists the runs under way and the last ones, the newest first.",
    answer: z.strictObject({ runs: z.array(labRunAnswer) }),
    handle: ({ services }) => ({ runs: services.lab.list().map(shownRun) }),
  }),
  route({
    method: "POST",
    path: "/admin/api/lab/runs",
    access: "admin",
    summary: "Starts a run: calls at a steady rate, on channels that have a fault. At most four run at a time.",
    status: 201,
    body: z.strictObject({
      scenario: z.string().max(64).describe("The name of a scenario."),
      mode: labMode.optional().describe("By default the usual one of the scenario."),
      calls: z.int().min(1).max(callsMax).default(6),
      rate: z.number().min(0.1).max(50).default(2).describe("Calls that begin in a second."),
    }),
    answer: labRunAnswer,
    handle: async ({ body: { scenario, mode = null, calls, rate }, services, actor }) => {
      const run = services.lab.start({ scenario, mode, calls, rate });
      if (run === "no_scenario") return invalid("scenario", "There is no such scenario: see GET /admin/api/lab/scenarios.");
      if (run === "no_mode") return invalid("mode", "The scenario has no calls of this mode: see its `modes`.");
      if (run === "busy") return busy;
      await services.storage.audit.note("lab.start", scenario, { run: run.id, mode: run.request.mode, calls, rate }, actor);
      return shownRun(run);
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/lab/runs/{id}",
    access: "admin",
    summary: "Shows a run as it stands: the attempts of each call, what its client saw, and the breakers of the channels.",
    answer: labRunAnswer,
    handle: ({ params: { id }, services }) => {
      const run = services.lab.find(id);
      return run === null ? noSuchRun : shownRun(run);
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/lab/runs/{id}",
    access: "admin",
    summary: "Ends a run, if it is under way, and forgets it.",
    answer: labRunAnswer,
    handle: async ({ params: { id }, services, actor }) => {
      const run = await services.lab.remove(id);
      if (run === null) return noSuchRun;
      await services.storage.audit.note("lab.stop", run.request.scenario.name, { run: run.id }, actor);
      return shownRun(run);
    },
  }),
];

const noSuchRun = new AdminError(404, "not_found", "There is no such run. The last sixteen are kept until the gateway restarts.");
const busy = new AdminError(409, "lab_busy", "Four runs are under way. Wait for one of them, or end it.");
