import type { Database } from "./database.ts";
import { sql } from "./sql.ts";
import { parsedJson } from "./stored-json.ts";

/** Whether old receipts may be deleted by the clock, and between which times it jumped if it did so since the last look. */
export interface ClockLook {
  readonly steady: boolean;
  readonly jumped: { readonly fromMs: number; readonly toMs: number } | null;
}

/**
 * A clock that is wrong must not delete what is not old, as where a machine starts with a wrong time and is told the right one later. So what
 * the clock says is kept in the store: after a jump of more than two days it must go on for a day before it is believed. Each look adds one
 * hour at most, so that a second jump shortens nothing. A store without such a time begins with that day. A machine that only runs at times
 * may need several runs for it: a further jump does not begin the day anew if it may be such a pause.
 */
export async function lookAtClock(database: Database, wallMs: number): Promise<ClockLook> {
  const last = await lastLook(database);
  const passedMs = last === null ? 0 : wallMs - last.seenMs;
  const jumped = last !== null && Math.abs(passedMs) > jumpMs ? { fromMs: last.seenMs, toMs: wallMs } : null;
  const before = last === null || (jumped !== null && !mayBePause(last, passedMs)) ? 0 : last.steadyMs;
  const steadyMs = jumped !== null ? before : Math.min(enoughMs, before + Math.max(0, Math.min(passedMs, lookEveryMs)));
  await database.run(sql`
    insert into settings (name, value) values (${settingName}, ${JSON.stringify([Math.round(wallMs), Math.round(steadyMs)])})
    on conflict (name) do update set value = excluded.value`);
  return { steady: steadyMs >= enoughMs, jumped };
}

/** Whether the clock may be believed, by the last look and by how far it has gone since. Whoever looks once an hour says so to everybody else. */
export async function isClockSteady(database: Database, wallMs: number): Promise<boolean> {
  const last = await lastLook(database);
  return last !== null && last.steadyMs >= enoughMs && Math.abs(wallMs - last.seenMs) <= jumpMs;
}

/** A clock that was believed begins anew with any jump, and a clock that is set right mostly goes back. */
function mayBePause({ steadyMs }: LastLook, passedMs: number): boolean {
  return steadyMs < enoughMs && passedMs > 0 && passedMs <= pauseMsMax;
}

interface LastLook {
  readonly seenMs: number;
  /** For how long the clock has gone on without a jump, other than pauses. */
  readonly steadyMs: number;
}

async function lastLook(database: Database): Promise<LastLook | null> {
  const [row] = await database.all<{ readonly value: string }>(sql`select value from settings where name = ${settingName}`);
  return lookFrom(parsedJson(row?.value ?? "null"));
}

function lookFrom(value: unknown): LastLook | null {
  if (!Array.isArray(value)) return null;
  const [seenMs, steadyMs] = value as readonly unknown[];
  return Number.isSafeInteger(seenMs) && Number.isSafeInteger(steadyMs) ? { seenMs: seenMs as number, steadyMs: steadyMs as number } : null;
}

const settingName = "retention_clock";
/** How often each process looks. */
export const lookEveryMs = 3_600_000;
const jumpMs = 48 * lookEveryMs;
const enoughMs = 24 * lookEveryMs;
const pauseMsMax = 31 * 24 * lookEveryMs;
