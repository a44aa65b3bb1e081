import type { CommandSurroundings } from "../command-context.ts";
import type { RunningAdminApi } from "../admin-api.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import { json } from "../shown-text.ts";
import { table } from "../table.ts";
import type { LabRequest } from "./arguments.ts";
import { channelLine, progressLine, resultLine, verdictText, type ShownLabRun, type ShownLabScenario } from "./lab-lines.ts";

/** Returns the exit code: 0 if the outcome is as promised. */
export function runLab(request: LabRequest, api: RunningAdminApi, context: CommandSurroundings): Promise<number> {
  return request.act === "list" ? list(request.json, api, context) : run(request, api, context);
}

async function list(asJson: boolean, api: RunningAdminApi, { terminal }: CommandSurroundings): Promise<number> {
  const { scenarios } = (await (await api.request("GET", "/lab/scenarios")).json()) as { readonly scenarios: readonly ShownLabScenario[] };
  if (asJson) terminal.print(json(scenarios));
  else {
    const columns = [
      { title: "SCENARIO", cell: ({ name }: ShownLabScenario) => name },
      { title: "CALLS", cell: ({ modes }: ShownLabScenario) => modes.join(", ") },
      { title: "THE FAULT", cell: ({ title }: ShownLabScenario) => title },
    ];
    terminal.print(table(columns, scenarios));
  }
  return 0;
}

async function run(request: LabRequest & { readonly act: "run" }, api: RunningAdminApi, context: CommandSurroundings): Promise<number> {
  const { terminal } = context;
  const { scenario, calls, rate, mode } = request;
  const interrupted = context.interruption();
  const { scenarios } = (await (await api.request("GET", "/lab/scenarios")).json()) as { readonly scenarios: readonly ShownLabScenario[] };
  const found = scenarios.find(({ name }) => name === scenario);
  if (found === undefined) throw new CommandError(`There is no scenario ${scenario}: see sluice lab.`, exitCodes.usage);
  const started = await api.request("POST", "/lab/runs", { body: { scenario, calls, rate, ...(mode === null ? {} : { mode }) } });
  let shown = (await started.json()) as ShownLabRun;
  if (!request.json) terminal.say(`${found.title}. ${found.fault}`);
  let printed = 0;
  for (;;) {
    if (!request.json) {
      // A row is printed when its call has ended, in the order of the calls.
      for (let next = shown.results[printed]; next?.client != null; next = shown.results[printed]) {
        terminal.print(resultLine(next));
        printed += 1;
      }
      terminal.progress(progressLine(shown));
    }
    if (shown.state !== "running") break;
    await pause(interrupted);
    if (interrupted.aborted) {
      await api.request("DELETE", `/lab/runs/${shown.id}`);
      throw new CommandError("The run was ended.", exitCodes.interrupt);
    }
    shown = (await (await api.request("GET", `/lab/runs/${shown.id}`)).json()) as ShownLabRun;
  }
  terminal.progress(null);
  if (request.json) terminal.print(json(shown));
  else {
    for (const channel of shown.channels) terminal.print(channelLine(channel));
    terminal.print(verdictText(shown, found));
  }
  return shown.as_promised === true ? 0 : exitCodes.failure;
}

/** Ends early when the user has had enough. */
function pause(interrupted: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, everyMs);
    interrupted.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

const everyMs = 200;
