import type { Account } from "../../gateway/storage.ts";
import { createLoginLink } from "../../manage/login-link.ts";
import type { CommandContext, OpenStore } from "../command-context.ts";
import { CommandError } from "../command-error.ts";
import { json } from "../shown-text.ts";
import type { OpenRequest } from "./arguments.ts";

/** Makes a link that signs in once, and opens it. The secret stands behind the `#`, which browsers send to nobody. */
export async function runOpen(request: OpenRequest, store: OpenStore, context: CommandContext): Promise<void> {
  const { adminUrl, terminal, actor } = context;
  if (adminUrl === null) throw new CommandError("The admin API is off (`admin: off`), and the console with it.");
  const account = await accountFor(request.account, store);
  const url = `${adminUrl}/console#link=${await createLoginLink(store, account, actor)}`;
  if (request.json) return terminal.print(json({ url, account: account.name }));
  if (!request.print && context.startBrowser(url)) return terminal.say(`Opening the console as ${account.name}.`);
  terminal.print(url);
}

async function accountFor(name: string | null, { storage }: OpenStore): Promise<Account> {
  const active = (await storage.accounts.list()).filter(({ disabledMs }) => disabledMs === null);
  if (name !== null) {
    const found = active.find((account) => account.name === name.trim().toLowerCase());
    if (found === undefined) throw new CommandError(`There is no active account ${name}: see sluice accounts list.`);
    return found;
  }
  const admins = active.filter(({ role }) => role === "admin");
  const [only] = admins;
  if (only === undefined)
    throw new CommandError("There is no admin account yet. Create one with: sluice accounts create NAME --role admin");
  if (admins.length > 1) {
    throw new CommandError(`There are several admins: choose one with --account (${admins.map((account) => account.name).join(", ")}).`);
  }
  return only;
}
