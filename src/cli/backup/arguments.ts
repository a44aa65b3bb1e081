import { Option } from "commander";
import { configOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";

export type BackupRequest = { readonly on: "backup" } & (
  | {
      readonly act: "backup";
      readonly file: string;
      readonly json: boolean;
      readonly plain: boolean;
      readonly passphraseFile: string | null;
    }
  | {
      readonly act: "restore";
      readonly file: string;
      readonly json: boolean;
      readonly yes: boolean;
      readonly checkOnly: boolean;
      readonly passphraseFile: string | null;
    }
  | { readonly act: "rotate"; readonly yes: boolean }
  | { readonly act: "show" }
);

export function addBackup({ program, onRequest }: CommandRegistry): void {
  program
    .command("backup")
    .description("copy the store to a file, encrypted, also while gateways run")
    .argument("<file>", "the file to write; it must not exist yet")
    .option("--passphrase-file <file>", "encrypt it with the passphrase in this file instead of the master key")
    .addOption(new Option("--plain", "do not encrypt it").conflicts("passphraseFile"))
    .option("--json", "print the result as JSON")
    .option(...configOption)
    .addHelpText("after", backupExamples)
    .action((file: string, { config, json = false, plain = false, passphraseFile }: BackupCommandOptions) =>
      onRequest(config, { on: "backup", act: "backup", file, json, plain, passphraseFile: passphraseFile ?? null }),
    );

  program
    .command("restore")
    .description("replace the store with a backup; gateways must be stopped")
    .argument("<file>", "made by sluice backup")
    .option("--passphrase-file <file>", "the passphrase it was encrypted with, if not the master key")
    .option("--check", "only check whether the backup is valid and can be restored here; gateways may run")
    .option("-y, --yes", "do not ask for confirmation")
    .option("--json", "print the result as JSON")
    .option(...configOption)
    .addHelpText("after", restoreExamples)
    .action((file: string, { config, json = false, yes = false, check: checkOnly = false, passphraseFile }: RestoreCommandOptions) =>
      onRequest(config, { on: "backup", act: "restore", file, json, yes, checkOnly, passphraseFile: passphraseFile ?? null }),
    );

  const masterKey = program
    .command("master-key")
    .description("manage the key that the secrets in the store are encrypted with")
    .addHelpText("after", masterKeyExamples);
  masterKey
    .command("show")
    .description("print the master key of the data folder, to keep a copy in another place")
    .option(...configOption)
    .addHelpText("after", masterKeyExamples)
    .action(({ config }: CommonOptions) => onRequest(config, { on: "backup", act: "show" }));
  masterKey
    .command("rotate")
    .description("replace the master key, and encrypt the secrets with the new one; gateways must be stopped")
    .option("-y, --yes", "do not ask for confirmation")
    .option(...configOption)
    .addHelpText("after", masterKeyExamples)
    .action(({ config, yes = false }: CommonOptions & { yes?: boolean }) => onRequest(config, { on: "backup", act: "rotate", yes }));
}

interface BackupCommandOptions extends CommonOptions {
  readonly plain?: boolean;
  readonly passphraseFile?: string;
}

interface RestoreCommandOptions extends CommonOptions {
  readonly yes?: boolean;
  readonly check?: boolean;
  readonly passphraseFile?: string;
}

const backupExamples = `
Examples:
  $ sluice backup /backups/sluice-2027-01-31.backup
  $ sluice backup --config /etc/sluice.yaml --passphrase-file /run/secrets/backup /backups/sluice.backup
  $ sluice backup --plain sluice.db && age -R recipients.txt -o sluice.db.age sluice.db

The backup is encrypted with the master key, which it does not contain. Without the master key neither the backup nor the
keys and secrets in it can be used: keep a copy of data_dir/master-key, or of SLUICE_MASTER_KEY, in another place. To back
up a PostgreSQL store, use pg_dump.
`;

const restoreExamples = `
Examples:
  $ sluice restore /backups/sluice-2027-01-31.backup
  $ sluice restore /backups/sluice-2027-01-31.backup --check

The previous store is kept in the same folder. The restored store needs the master key that it had when the backup was
made (data_dir/master-key or SLUICE_MASTER_KEY).
`;

const masterKeyExamples = `
Examples:
  $ sluice master-key show > copy-of-master-key
  $ sluice master-key rotate
  $ openssl rand -hex 32 > next && sluice master-key rotate --yes < next     where SLUICE_MASTER_KEY is set

Client keys keep working. Copy the new data_dir/master-key to another place: backups do not contain it. Older backups
need the old master key, which is kept in the data folder as master-key.replaced-…
`;
