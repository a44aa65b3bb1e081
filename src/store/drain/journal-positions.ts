import { rmSync } from "node:fs";
import type { Database } from "../database.ts";
import { finishedFiles } from "../journal/folder.ts";
import { SegmentReader } from "../journal/reader.ts";
import { sql } from "../sql.ts";

/** The position in a segment up to which the store has everything; null if none is stored. */
export async function storedPosition(database: Database, segment: string): Promise<number | null> {
  const rows = await database.all<{ readonly position: number }>(sql`select position from journals where name = ${segment}`);
  return rows[0]?.position ?? null;
}

/** Waits for a transaction that also moves it. Throws `PositionChanged` if the position is not the expected one. */
export async function movePosition(database: Database, name: string, segment: number, from: number | null, to: number): Promise<void> {
  const moved = await database.run(
    from === null
      ? sql`insert into journals (name, segment, position) values (${name}, ${segment}, ${to}) on conflict (name) do nothing`
      : sql`update journals set segment = ${segment}, position = ${to} where name = ${name} and position = ${from}`,
  );
  if (moved === 0) throw new PositionChanged();
}

/**
 * The store has another position than the one that was written last: after a failover it is a standby that was behind, or it has a
 * transaction whose confirmation was lost.
 */
export class PositionChanged extends Error {}

/** Removes segments that are finished, and their positions first. Where the process dies in between, the next one goes on here. */
export async function removeFinished(database: Database, slot: string): Promise<void> {
  for (const file of finishedFiles(slot)) {
    const reader = new SegmentReader(file);
    try {
      const { head } = reader.beginning();
      if (head !== null) await database.run(sql`delete from journals where name = ${head.segment}`);
    } finally {
      reader.close();
    }
    rmSync(file, { force: true });
  }
}
