/** Ids that sort by the time they were made at. */
export function newId(): string {
  return Bun.randomUUIDv7();
}
