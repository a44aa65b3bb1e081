/** Since when models are offered, by the names that clients use: what a list of models says of their making. */
export interface Offered {
  readonly sinceMs: ReadonlyMap<string, number>;
  /** When the first ones were: for a model that is in no list and served all the same. */
  readonly firstMs: number;
}

/** A model keeps its time as long as it is there; one that comes back has a new one. */
export function offeredNow(before: Offered | null, models: Iterable<string>, wallMs: number): Offered {
  const sinceMs = new Map<string, number>();
  for (const model of models) sinceMs.set(model, before?.sinceMs.get(model) ?? wallMs);
  return { sinceMs, firstMs: before?.firstMs ?? wallMs };
}
