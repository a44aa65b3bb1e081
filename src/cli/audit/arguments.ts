import { Option, type Command } from "commander";
import { auditFormats } from "../../manage/audit-export.ts";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { line, past, wholeNumber } from "../option-values.ts";

export interface AuditRequest {
  readonly on: "audit";
  readonly json: boolean;
  readonly since: string | null;
  readonly action: string | null;
  readonly subject: string | null;
  readonly actor: string | null;
  /** Null: a hundred, or all of them with a format. */
  readonly limit: number | null;
  /** For other systems: JSON on each line, or a table for a spreadsheet. */
  readonly format: "jsonl" | "csv" | null;
}

/** Takes a change back. */
export interface UndoRequest {
  readonly on: "undo";
  readonly json: boolean;
  /** Of an entry of the audit log. */
  readonly id: string;
  /** Does not ask for confirmation. */
  readonly yes: boolean;
}

export function addAudit({ program, onRequest }: CommandRegistry): void {
  const audit = program
    .command("audit")
    .description("show who changed what, newest first, and take changes back")
    .option("--since <when>", "from this time on: a date, a time, or how long ago, such as 24h or 7d", past)
    .option("--action <name>", "only this action, such as key.create", line(200))
    .option("--subject <what>", "only this subject: a key by id or name, a channel or an account", line(200))
    .option("--actor <name>", "only by this account, token or user", line(200))
    .option("--limit <n>", "how many to list at most (default: 100, or all with --format)", wholeNumber(1, 100_000_000))
    .addOption(new Option("--format <format>", "export: one JSON object on each line, or CSV").choices(auditFormats))
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", auditExamples)
    .action((options: CommonOptions & Omit<Partial<AuditRequest>, "on">) => {
      const { config, json = false, since = null, action = null, subject = null, actor = null, limit = null, format = null } = options;
      onRequest(config, { on: "audit", json, since, action, subject, actor, limit, format });
    });
  audit
    .command("undo")
    .description("take a change back, unless what it changed has changed again since")
    .argument("<id>", "the id of the change, as sluice audit shows it", line(200))
    .option("-y, --yes", "do not ask for confirmation")
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", undoExamples)
    .action((id: string, _: unknown, command: Command) => {
      // The command above has some of these options as well, and takes them.
      const { config, json = false, yes = false } = command.optsWithGlobals<CommonOptions & { readonly yes?: boolean }>();
      onRequest(config, { on: "undo", json, id, yes });
    });
}

const undoExamples = `
Examples:
  $ sluice audit --since 1h                    shows the ids
  $ sluice audit undo 01933e6a-6f5e-7c3a-9b1f-2f6d6c1f0a11
  $ sluice audit undo ID --yes < upstream-key  where a secret has to be given again

What cannot be undone says so, such as a key that was revoked. Secrets that were replaced or removed are not kept: they are
asked for, or read from standard input.
`;

const auditExamples = `
Examples:
  $ sluice audit --since 7d
  $ sluice audit --action key.revoke
  $ sluice audit --subject laptop --json
  $ sluice audit --actor ada --limit 1000
  $ sluice audit --since 30d --format jsonl > audit.jsonl
  $ sluice audit undo ID
`;
