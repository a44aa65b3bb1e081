import type { Account, AdminToken } from "../../gateway/storage.ts";
import {
  accountName,
  accountView,
  createAccount,
  createAdminToken,
  editAccount,
  passwordProblem,
  removeAccount,
  revokeAdminToken,
  tokenView,
} from "../../manage/accounts.ts";
import { isoMoment } from "../../usage/time-text.ts";
import type { AccountsRequest } from "./arguments.ts";
import { json, localMinute } from "../shown-text.ts";
import type { OpenStore, CommandContext } from "../command-context.ts";
import { table } from "../table.ts";
import { CommandError, exitCodes, orThrow } from "../command-error.ts";

export async function runAccounts(request: AccountsRequest, store: OpenStore, context: CommandContext): Promise<void> {
  const { accounts } = store.storage;
  const { terminal, actor } = context;
  const answer = (value: unknown, words: string): void => terminal.print(request.json ? json(value) : words);
  switch (request.act) {
    case "list": {
      const all = await accounts.list();
      if (all.length === 0 && !request.json)
        return terminal.say("There are no accounts. Create one with: sluice accounts create NAME --role admin");
      return answer(all.map(accountView), accountTable(all));
    }
    case "create": {
      const name = nameOf(request.name);
      if ((await accounts.list()).some((account) => account.name === name)) throw new CommandError(`Account ${name} already exists.`);
      const password = await newPassword(name, context);
      const created = orThrow(await createAccount(store, { name, role: request.role, group: request.group, password }, actor));
      return answer(accountView(created), `Created account ${name} with role ${created.role}.`);
    }
    case "password": {
      const name = await existing(request.name, store);
      const changed = orThrow(await editAccount(store, name, { password: await newPassword(name, context) }, actor));
      return answer(accountView(changed), `Changed the password of account ${name}, and ended its sessions.`);
    }
    case "disable":
    case "enable": {
      const name = await existing(request.name, store);
      const disabled = request.act === "disable";
      const changed = orThrow(await editAccount(store, name, { disabled }, actor));
      return answer(accountView(changed), disabled ? `Disabled account ${name}, and ended its sessions.` : `Enabled account ${name}.`);
    }
    case "remove": {
      const name = await existing(request.name, store);
      if (!request.yes && terminal.isInteractive && !(await terminal.confirm(`Remove account ${name}?`)))
        throw new CommandError("Nothing was changed.");
      await removeAccount(store, name, actor);
      return answer({ removed: name }, `Removed account ${name}.`);
    }
    case "end-sessions": {
      const { name } = request;
      const ended = await accounts.endSessions(name, actor);
      return answer(
        { name, ended },
        ended === 0 ? `${name} has no session.` : `Ended ${ended} ${ended === 1 ? "session" : "sessions"} of ${name}.`,
      );
    }
    case "allow-local": {
      const untilMs = request.forMs === 0 ? 0 : context.wallMs() + request.forMs;
      await accounts.allowLocal(untilMs, actor);
      const until = untilMs === 0 ? null : isoMoment(untilMs);
      const words = until === null ? "Local accounts are as the configuration says." : `Local accounts can log in until ${until}.`;
      return answer({ local_accounts_until: until }, words);
    }
    case "tokens": {
      const all = await accounts.tokens();
      if (all.length === 0 && !request.json) return terminal.say("There are no admin tokens.");
      return answer(all.map(tokenView), tokenTable(all));
    }
    case "create-token": {
      const name = nameOf(request.name);
      const { created, secret } = orThrow(await createAdminToken(store, { name, role: request.role, group: request.group }, actor));
      if (request.json) {
        const { name: called, ...rest } = tokenView(created);
        return terminal.print(json({ name: called, token: secret, ...rest }));
      }
      terminal.say(`Created token ${name} with role ${created.role}. It is shown only once; store it somewhere safe:\n`);
      return terminal.print(secret);
    }
    case "revoke-token": {
      const name = nameOf(request.name);
      if (!(await accounts.tokens()).some((token) => token.name === name)) {
        throw new CommandError(`There is no token ${name}. See sluice accounts tokens list.`);
      }
      await revokeAdminToken(store, name, actor);
      return answer({ revoked: name }, `Revoked token ${name}.`);
    }
  }
}

function nameOf(text: string): string {
  const name = accountName(text);
  if (name !== null) return name;
  throw new CommandError("A name has 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit.", exitCodes.usage);
}

async function existing(text: string, { storage }: OpenStore): Promise<string> {
  const name = nameOf(text);
  if ((await storage.accounts.list()).some((account) => account.name === name)) return name;
  throw new CommandError(`There is no account ${name}. See sluice accounts list.`);
}

/** Asked twice at a terminal, because a typing mistake would lock the account out. */
async function newPassword(name: string, { terminal }: CommandContext): Promise<string> {
  const password = await terminal.secret(`Password for ${name} (not shown): `);
  orThrow(passwordProblem(password, name));
  if (terminal.isInteractive && (await terminal.secret("Repeat it: ")) !== password) {
    throw new CommandError("The passwords do not match: nothing was changed.", exitCodes.usage);
  }
  return password;
}

function accountTable(accounts: readonly Account[]): string {
  return table<Account>(
    [
      { title: "NAME", cell: ({ name }) => name },
      { title: "ROLE", cell: ({ role }) => role },
      { title: "STATE", cell: ({ disabledMs }) => (disabledMs === null ? "enabled" : "disabled") },
      { title: "CREATED", cell: ({ createdMs }) => localMinute(createdMs) },
    ],
    accounts,
  );
}

function tokenTable(tokens: readonly AdminToken[]): string {
  return table<AdminToken>(
    [
      { title: "NAME", cell: ({ name }) => name },
      { title: "ROLE", cell: ({ role }) => role },
      { title: "STATE", cell: ({ revokedMs }) => (revokedMs === null ? "active" : "revoked") },
      { title: "ENDS IN", cell: ({ last4 }) => last4 },
      { title: "CREATED", cell: ({ createdMs }) => localMinute(createdMs) },
    ],
    tokens,
  );
}
