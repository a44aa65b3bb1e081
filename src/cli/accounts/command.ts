import { accountName, passwordProblem } from "../../manage/accounts.ts";
import { isoMoment } from "../../usage/time-text.ts";
import type { AccountsRequest } from "./arguments.ts";
import { isoMinute, json } from "../shown-text.ts";
import type { CommandSurroundings } from "../command-context.ts";
import type { AccessManagement, AccountView, AdminTokenView } from "../management/access-management.ts";
import { table } from "../table.ts";
import { CommandError, exitCodes, orThrow } from "../command-error.ts";

export async function runAccounts(request: AccountsRequest, management: AccessManagement, context: CommandSurroundings): Promise<void> {
  const { terminal } = context;
  const answer = (value: unknown, words: string): void => terminal.print(request.json ? json(value) : words);
  switch (request.act) {
    case "list": {
      const all = await management.accounts();
      if (all.length === 0 && !request.json)
        return terminal.say("There are no accounts. Create one with: sluice accounts create NAME --role admin");
      return answer(all, accountTable(all));
    }
    case "create": {
      const name = nameOf(request.name);
      if ((await management.accounts()).some((account) => account.name === name)) throw new CommandError(`Account ${name} already exists.`);
      const password = await newPassword(name, context);
      const created = await management.createAccount({ name, role: request.role, group: request.group, password });
      return answer(created, `Created account ${name} with role ${created.role}.`);
    }
    case "password": {
      const name = await existing(request.name, management);
      const changed = await management.editAccount(name, { password: await newPassword(name, context) });
      return answer(changed, `Changed the password of account ${name}, and ended its sessions.`);
    }
    case "disable":
    case "enable": {
      const name = await existing(request.name, management);
      const disabled = request.act === "disable";
      const changed = await management.editAccount(name, { disabled });
      return answer(changed, disabled ? `Disabled account ${name}, and ended its sessions.` : `Enabled account ${name}.`);
    }
    case "remove": {
      const name = await existing(request.name, management);
      if (!request.yes && terminal.isInteractive && !(await terminal.confirm(`Remove account ${name}?`)))
        throw new CommandError("Nothing was changed.");
      await management.removeAccount(name);
      return answer({ removed: name }, `Removed account ${name}.`);
    }
    case "end-sessions": {
      const { name } = request;
      const ended = await management.endSessions(name);
      return answer(
        { name, ended },
        ended === 0 ? `${name} has no session.` : `Ended ${ended} ${ended === 1 ? "session" : "sessions"} of ${name}.`,
      );
    }
    case "allow-local": {
      const untilMs = request.forMs === 0 ? 0 : context.wallMs() + request.forMs;
      await management.allowLocalAccounts(untilMs);
      const until = untilMs === 0 ? null : isoMoment(untilMs);
      const words = until === null ? "Local accounts are as the configuration says." : `Local accounts can log in until ${until}.`;
      return answer({ local_accounts_until: until }, words);
    }
    case "tokens": {
      const all = await management.adminTokens();
      if (all.length === 0 && !request.json) return terminal.say("There are no admin tokens.");
      return answer(all, tokenTable(all));
    }
    case "create-token": {
      const name = nameOf(request.name);
      const { view, secret } = await management.createAdminToken({ name, role: request.role, group: request.group });
      if (request.json) {
        const { name: called, ...rest } = view;
        return terminal.print(json({ name: called, token: secret, ...rest }));
      }
      terminal.say(`Created token ${name} with role ${view.role}. It is shown only once; store it somewhere safe:\n`);
      return terminal.print(secret);
    }
    case "revoke-token": {
      const name = nameOf(request.name);
      if (!(await management.adminTokens()).some((token) => token.name === name)) {
        throw new CommandError(`There is no token ${name}. See sluice accounts tokens list.`);
      }
      await management.revokeAdminToken(name);
      return answer({ revoked: name }, `Revoked token ${name}.`);
    }
  }
}

function nameOf(text: string): string {
  const name = accountName(text);
  if (name !== null) return name;
  throw new CommandError("A name has 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit.", exitCodes.usage);
}

async function existing(text: string, management: AccessManagement): Promise<string> {
  const name = nameOf(text);
  if ((await management.accounts()).some((account) => account.name === name)) return name;
  throw new CommandError(`There is no account ${name}. See sluice accounts list.`);
}

/** Asked twice at a terminal, because a typing mistake would lock the account out. */
async function newPassword(name: string, { terminal }: CommandSurroundings): Promise<string> {
  const password = await terminal.secret(`Password for ${name} (not shown): `);
  orThrow(passwordProblem(password, name));
  if (terminal.isInteractive && (await terminal.secret("Repeat it: ")) !== password) {
    throw new CommandError("The passwords do not match: nothing was changed.", exitCodes.usage);
  }
  return password;
}

function accountTable(accounts: readonly AccountView[]): string {
  return table<AccountView>(
    [
      { title: "NAME", cell: ({ name }) => name },
      { title: "ROLE", cell: ({ role }) => role },
      { title: "STATE", cell: ({ disabled_at }) => (disabled_at === null ? "enabled" : "disabled") },
      { title: "CREATED", cell: ({ created_at }) => isoMinute(created_at) },
    ],
    accounts,
  );
}

function tokenTable(tokens: readonly AdminTokenView[]): string {
  return table<AdminTokenView>(
    [
      { title: "NAME", cell: ({ name }) => name },
      { title: "ROLE", cell: ({ role }) => role },
      { title: "STATE", cell: ({ revoked_at }) => (revoked_at === null ? "active" : "revoked") },
      { title: "ENDS IN", cell: ({ last4 }) => last4 },
      { title: "CREATED", cell: ({ created_at }) => isoMinute(created_at) },
    ],
    tokens,
  );
}
