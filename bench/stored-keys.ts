import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../src/app/durable.ts";
import { groupIdPrefix } from "../src/keys/group.ts";
import { makeToken } from "../src/keys/token.ts";
import { unlimited, type Limits } from "../src/limits/limits.ts";
import type { Database } from "../src/store/database.ts";
import { sql } from "../src/store/sql.ts";
import { channelEntry, type GatewayChannel } from "./gateway.ts";
import { scratch } from "./processes.ts";

/** A store as a gateway finds it when it starts. */
export interface MadeStore {
  readonly dataDir: string;
  /** What opens the keys that were asked for, in their order. */
  readonly tokens: readonly string[];
}

export interface StoreAsked {
  /** `sqlite`, or the address of a PostgreSQL database. */
  readonly store?: string;
  readonly masterKey?: string;
  /** The limits of each key that will be used. */
  readonly keys: readonly Limits[];
  /** An organisation, a team in it and a project in that, each with these limits: the first of the keys is in the project. */
  readonly above?: Limits;
  /** As many more in SQLite whose tokens nobody knows. */
  readonly strangers?: number;
  /** All keys are in as many projects in SQLite, which are in teams of ten, and those in organisations of ten. */
  readonly projects?: number;
  /** In SQLite: what the keys and their groups used within as many whole days before today, a day and ten calls for each key. */
  readonly usageDays?: number;
  readonly channels?: readonly GatewayChannel[];
}

export async function madeStore({
  store = "sqlite",
  masterKey,
  keys,
  above,
  strangers = 0,
  projects = 0,
  usageDays = 0,
  channels = [],
}: StoreAsked): Promise<MadeStore> {
  const dataDir = mkdtempSync(join(scratch, "data-"));
  const opened = await openStore({ store, dataDir }, masterKey ?? null, false);
  const { database } = opened;
  try {
    const tokens: string[] = [];
    // It is made for this run only: nothing is lost with it.
    if (database.engine === "sqlite") await database.run(sql`pragma synchronous = off`);
    await database.transaction(async (inside) => {
      for (const [index, limits] of keys.entries()) {
        const { token, publicId } = makeToken((bytes) => crypto.getRandomValues(new Uint8Array(bytes)));
        tokens.push(token);
        await inside.run(sql`insert into keys (id, name, scopes, limits, splits, created_ms, revision)
          values (${publicId}, ${`asked-${index}`}, ${anyScope}, ${JSON.stringify(limits)}, ${noSplits}, ${Date.now()}, 0)`);
        await inside.run(sql`insert into key_tokens (digest, key_id, last4, created_ms)
          values (${opened.masterKey.digest(token)}, ${publicId}, ${token.slice(-4)}, ${Date.now()})`);
      }
      if (above !== undefined) await addLevels(inside, above);
      if (strangers > 0) await addStrangers(inside, strangers);
      if (projects > 0) await addGroups(inside, projects);
      if (usageDays > 0) await addUsage(inside, usageDays);
      for (const channel of channels) {
        await inside.run(sql`insert into channels (name, entry, sealed, last4, created_ms, updated_ms, revision)
          values (${channel.name}, ${JSON.stringify(channelEntry(channel))}, ${opened.channelSecrets.encrypt(channel.name, ["x"])}, '["x"]',
            ${Date.now()}, ${Date.now()}, 0)`);
      }
    });
    return { dataDir, tokens };
  } finally {
    await opened.storage.close();
  }
}

async function addLevels(inside: Database, limits: Limits): Promise<void> {
  let parent: string | null = null;
  for (const kind of ["organisation", "team", "project"]) {
    const id = `${groupIdPrefix}${kind}`;
    await inside.run(sql`insert into key_groups (id, name, kind, parent, limits, key_defaults, group_defaults, created_ms, revision)
      values (${id}, ${kind}, ${kind}, ${parent}, ${JSON.stringify(limits)}, ${JSON.stringify(unlimited)}, ${JSON.stringify(unlimited)},
        ${Date.now()}, 0)`);
    parent = id;
  }
  await inside.run(sql`update keys set group_id = ${parent} where name = 'asked-0'`);
}

async function addStrangers(inside: Database, strangers: number): Promise<void> {
  await inside.run(sql`insert into keys (id, name, owner, scopes, limits, splits, created_ms, revision)
      with recursive n(i) as (select 1 union all select i + 1 from n where i < ${strangers})
      select printf('x%011d', i), 'stranger-' || i, 'team-' || (i % 500), ${anyScope}, ${someLimits}, ${noSplits}, ${Date.now()}, 0 from n`);
  await inside.run(sql`insert into key_tokens (digest, key_id, last4, created_ms)
      select lower(hex(randomblob(32))), id, 'abcd', created_ms from keys where id like 'x%' and name like 'stranger-%'`);
}

async function addGroups(inside: Database, projects: number): Promise<void> {
  const [limits, none] = [JSON.stringify(farLimits), JSON.stringify(unlimited)];
  const levels = [
    ["organisation", "", projects / 100],
    ["team", "organisation", projects / 10],
    ["project", "team", projects],
  ] as const;
  for (const [kind, above, count] of levels) {
    await inside.run(sql`insert into key_groups (id, name, kind, parent, limits, key_defaults, group_defaults, created_ms, revision)
      with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${Math.max(1, count)})
      select 'grp_' || ${kind} || i, ${kind} || '-' || i, ${kind}, ${above === "" ? null : `grp_${above}`} || (i / 10), ${limits}, ${none}, ${none},
        ${Date.now()}, 0 from n`);
  }
  await inside.run(sql`update keys set group_id = 'grp_project' || (rowid % ${projects})`);
}

async function addUsage(inside: Database, days: number): Promise<void> {
  const todayMs = Math.floor(Date.now() / dayMs) * dayMs;
  const none = sql`0, 0, 0`;
  const columns = sql`at_ms, model, channel, operation, calls, failed, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens,
    audio_ms, characters, nanos, unpriced, uncertain, estimated`;
  await inside.run(sql`insert into usage_days (key_id, ${columns})
      select id, ${todayMs} - (1 + (rowid * 7919 / 13) % ${days}) * ${dayMs}, 'model-' || (rowid % 3), 'up-0', 'chat', 10, 0, 4000, 0, 900, ${none},
        2000000, ${none} from keys order by 2, 1`);
  const summed = sql`at_ms, model, channel, operation, sum(calls), 0, sum(prompt_tokens), 0, sum(completion_tokens), ${none}, sum(nanos), ${none}`;
  await inside.run(sql`insert into owner_days (owner_id, tags, ${columns})
      select group_id, '', ${summed} from usage_days join keys on keys.id = usage_days.key_id where group_id is not null group by group_id, at_ms, model`);
  for (const below of ["grp_project", "grp_team"]) {
    await inside.run(sql`insert into owner_days (owner_id, tags, ${columns})
        select parent, '', ${summed} from owner_days join key_groups on key_groups.id = owner_days.owner_id
        where owner_id like ${`${below}%`} group by parent, at_ms, model`);
  }
}

const dayMs = 86_400_000;

/** So far away that no call meets them, and counted all the same. */
export const farLimits: Limits = { ...unlimited, requests: 1e9, tokens: 1e12, concurrency: 1e6 };
/** A million dollars a month. */
export const farBudget: Limits = { ...farLimits, budget: { nanos: 1e15, period: "month" } };

const anyScope = JSON.stringify({ models: null, operations: null, channels: null });
const noSplits = JSON.stringify({ audio: false, input: false });
const someLimits = JSON.stringify({ ...unlimited, requests: 600, tokens: 200_000, concurrency: 32 });
