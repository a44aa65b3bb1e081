import { Option } from "commander";
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

export function addAudit({ program, onRequest }: CommandRegistry): void {
  program
    .command("audit")
    .description("show who changed what, newest first")
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
}

const auditExamples = `
Examples:
  $ sluice audit --since 7d
  $ sluice audit --action key.revoke
  $ sluice audit --subject laptop --json
  $ sluice audit --actor ada --limit 1000
  $ sluice audit --since 30d --format jsonl > audit.jsonl
`;
