import type { Command } from "commander";
import { configOption, jsonOption } from "../command-registry.ts";

/** Looks for what is wrong with this machine and this configuration. */
export interface DoctorRequest {
  readonly json: boolean;
  /** Ask no upstream. */
  readonly offline: boolean;
}

export function addDoctor(program: Command, onRequest: (config: string | null, request: DoctorRequest) => void): void {
  program
    .command("doctor")
    .description("find out what is wrong with this machine and this configuration, and how to fix it")
    .option("--offline", "ask no upstream")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", doctorExamples)
    .action(({ json = false, offline = false, config }: { json?: boolean; offline?: boolean; config?: string }) =>
      onRequest(config ?? null, { json, offline }),
    );
}

const doctorExamples = `
Examples:
  $ sluice doctor
  $ sluice doctor --config sluice.yaml
  $ sluice doctor --offline --json

It changes nothing, and sends no key to anybody. The exit code is 1 if something has to be fixed, else 0; warnings do not count.
`;
