import { StorageError, type Actor, type ChannelStorage, type StoredChannel } from "../../gateway/storage.ts";
import { tagsCharacters, tagsCharactersMax } from "../../keys/budget-selector.ts";
import { change, type Changed, type TableContext } from "./change.ts";
import { auditedChanges, auditedSettings } from "./channel-audit.ts";
import { encryptedEntry, decryptedEntry } from "./channel-entry.ts";
import type { Database } from "../database.ts";
import { joinSql, sql, type Sql } from "../sql.ts";
import { parsedJson, parsedObject, textsFrom } from "../stored-json.ts";
import { checkName, isValidName } from "../stored-text.ts";

type NewChannel = Pick<StoredChannel, "name" | "entry" | "sealed" | "last4">;
type ChannelChange = Partial<Omit<NewChannel, "name">>;

export class ChannelTable implements ChannelStorage {
  constructor(
    private readonly database: Database,
    private readonly context: TableContext,
  ) {}

  async list(): Promise<readonly StoredChannel[]> {
    return (await readRows(this.database, [])).flatMap((row) => {
      const channel = this.channelFrom(row);
      if (!("damaged" in channel)) return [channel];
      this.context.damaged?.({ table: "channels", id: row.name, column: channel.damaged });
      return [];
    });
  }

  async version(): Promise<string> {
    const [row] = await this.database.all<{ readonly count: number; readonly newest: number | null }>(
      sql`select count(*) as count, max(revision) as newest from channels`,
    );
    return `${row?.count ?? 0} ${row?.newest ?? 0}`;
  }

  async get(name: string): Promise<StoredChannel | null> {
    const [row] = isValidName(name) ? await readRows(this.database, [sql`name = ${name}`]) : [];
    return row === undefined ? null : this.requireReadable(row);
  }

  async create(channel: NewChannel, by: Actor): Promise<StoredChannel> {
    const { name, sealed, last4 } = channel;
    checkName("The name of a channel", name);
    checkTags(name, channel.entry);
    const entry = this.entryText(name, channel.entry);
    return change(this.database, this.context, by, async (transaction, revision) => {
      if ((await readRows(transaction, [sql`name = ${name}`])).length > 0) {
        throw new StorageError("conflict", `A channel with the name ${name} already exists: choose another.`);
      }
      const nowMs = this.context.wallMs();
      await transaction.run(sql`
        insert into channels (name, entry, sealed, last4, created_ms, updated_ms, revision)
        values (${name}, ${entry}, ${sealed}, ${JSON.stringify(last4)}, ${nowMs}, ${nowMs}, ${revision})`);
      const detail = { members: Object.keys(channel.entry), ...auditedSettings(channel.entry), last4 };
      return {
        value: this.requireReadable(await requireRow(transaction, name)),
        audit: { action: "channel.create", subject: name, detail },
      };
    });
  }

  async change(name: string, changes: ChannelChange, by: Actor): Promise<StoredChannel> {
    const row = await change(this.database, this.context, by, async (transaction, revision) =>
      this.changed(transaction, revision, await requireRow(transaction, name), changes),
    );
    return this.requireReadable(row);
  }

  /**
   * Changes a channel depending on its current state, which nobody else can change in between. Returns null if `decide` leaves it
   * as it is.
   */
  async revise(name: string, decide: (before: StoredChannel) => Promise<ChannelChange | null>, by: Actor): Promise<StoredChannel | null> {
    try {
      const row = await change(this.database, this.context, by, async (transaction, revision) => {
        const before = await requireRow(transaction, name);
        const changes = await decide(this.requireReadable(before));
        // Rolls back the incremented revision as well.
        if (changes === null) throw new Unchanged();
        return this.changed(transaction, revision, before, changes);
      });
      return this.requireReadable(row);
    } catch (error) {
      if (error instanceof Unchanged) return null;
      throw error;
    }
  }

  private async changed(transaction: Database, revision: number, before: ChannelRow, changes: ChannelChange): Promise<Changed<ChannelRow>> {
    const { name } = before;
    const entry = this.currentEntry(before) ?? {};
    const members = changes.entry === undefined ? [] : changedMembers(entry, changes.entry);
    // Tags from versions that did not check them are no reason to refuse another change.
    if (members.includes("tags")) checkTags(name, changes.entry ?? {});
    const after = {
      entry: changes.entry === undefined ? this.reencryptedEntry(before) : this.entryText(name, changes.entry),
      sealed: changes.sealed === undefined ? before.sealed : changes.sealed,
      last4: changes.last4 === undefined ? before.last4 : JSON.stringify(changes.last4),
    };
    const nowMs = this.context.wallMs();
    await transaction.run(sql`
      update channels set entry = ${after.entry}, sealed = ${after.sealed}, last4 = ${after.last4}, updated_ms = ${nowMs},
        revision = ${revision} where name = ${name}`);
    const values = auditedChanges(entry, changes.entry ?? entry, members);
    const secrets = before.sealed === after.sealed ? {} : { secrets: "replaced", last4: parsedJson(after.last4) };
    const nothing = members.length === 0 && before.sealed === after.sealed && before.last4 === after.last4;
    const audit = nothing ? null : { action: "channel.change", subject: name, detail: { members, ...values, ...secrets } };
    return { value: await requireRow(transaction, name), audit };
  }

  async remove(name: string, by: Actor): Promise<void> {
    await change(this.database, this.context, by, async (transaction) => {
      const row = await requireRow(transaction, name);
      const settings = auditedSettings(this.currentEntry(row) ?? {});
      await transaction.run(sql`delete from channels where name = ${name}`);
      return {
        value: null,
        audit: { action: "channel.remove", subject: name, detail: { ...settings, last4: parsedJson(row.last4) ?? null } },
      };
    });
  }

  async reseal(name: string, from: string, to: string): Promise<boolean> {
    return (await this.database.run(sql`update channels set sealed = ${to} where name = ${name} and sealed = ${from}`)) === 1;
  }

  private entryText(name: string, entry: StoredChannel["entry"]): string {
    if (JSON.stringify(entry).length > entryCharactersMax) {
      throw new StorageError("invalid", `The settings of a channel must have at most ${entryCharactersMax} characters as JSON.`);
    }
    return JSON.stringify(encryptedEntry(name, entry, this.context.channelSecrets ?? null));
  }

  /** Headers in plain text, from versions before they were encrypted, are encrypted with the next write of the row. */
  private reencryptedEntry({ name, entry }: ChannelRow): string {
    const stored = parsedObject(entry);
    return stored === null ? entry : JSON.stringify(encryptedEntry(name, stored, this.context.channelSecrets ?? null));
  }

  private currentEntry({ name, entry }: ChannelRow): StoredChannel["entry"] | null {
    const stored = parsedObject(entry);
    const opened = stored === null ? null : decryptedEntry(name, stored, this.context.channelSecrets ?? null);
    return opened === null || opened.kind === "decryption_error" ? null : opened.entry;
  }

  private channelFrom(row: ChannelRow): StoredChannel | { readonly damaged: string; readonly message?: string } {
    const stored = parsedObject(row.entry);
    if (stored === null) return { damaged: "entry" };
    const opened = decryptedEntry(row.name, stored, this.context.channelSecrets ?? null);
    if (opened.kind === "decryption_error") return { damaged: "headers", message: opened.message };
    const last4 = textsFrom(parsedJson(row.last4));
    if (last4 === null) return { damaged: "last4" };
    const { name, sealed, created_ms: createdMs, updated_ms: updatedMs } = row;
    return { name, entry: opened.entry, sealed, last4, createdMs, updatedMs };
  }

  private requireReadable(row: ChannelRow): StoredChannel {
    const channel = this.channelFrom(row);
    if (!("damaged" in channel)) return channel;
    throw new StorageError(
      "damaged",
      channel.message ??
        `The ${channel.damaged} of channel ${row.name} cannot be read by this version. Set it again, or remove the channel.`,
    );
  }
}

class Unchanged extends Error {}

interface ChannelRow {
  readonly name: string;
  readonly entry: string;
  readonly sealed: string | null;
  readonly last4: string;
  readonly created_ms: number;
  readonly updated_ms: number;
}

async function readRows(database: Database, where: readonly Sql[]): Promise<readonly ChannelRow[]> {
  return database.all<ChannelRow>(sql`
    select name, entry, sealed, last4, created_ms, updated_ms from channels
    where ${joinSql([sql`1 = 1`, ...where], sql` and `)} order by name`);
}

async function requireRow(database: Database, name: string): Promise<ChannelRow> {
  const [row] = isValidName(name) ? await readRows(database, [sql`name = ${name}`]) : [];
  if (row === undefined) throw new StorageError("missing", "There is no such channel.");
  return row;
}

/** The sums of usage hold no more, so that budgets would not see the last tags. */
function checkTags(name: string, { tags }: StoredChannel["entry"]): void {
  if (!Array.isArray(tags) || tagsCharacters({ name, tags: tags.map(String) }) <= tagsCharactersMax) return;
  throw new StorageError("invalid", `The name of a channel and its tags must have at most ${tagsCharactersMax} characters together.`);
}

const entryCharactersMax = 1_000_000;

function changedMembers(old: StoredChannel["entry"], fresh: StoredChannel["entry"]): readonly string[] {
  const names = new Set([...Object.keys(old), ...Object.keys(fresh)]);
  return [...names].filter((name) => JSON.stringify(old[name]) !== JSON.stringify(fresh[name]));
}
