/** An item of an answer, such as a message or a call, as its client got it. */
export interface KeptItem {
  readonly id: string;
  readonly json: string;
}

/** Items by their ids, as JSON. */
export type FoundItems = ReadonlyMap<string, string>;

/**
 * Keeps items of answers for a while, so that a later request can name them instead of repeating them. They are found with the key that
 * they were made for, and with no other.
 */
export interface ItemMemory {
  /** Resolves when all processes that share the memory can find them; null if there are no others. It does not reject. */
  keep(keyId: string, items: readonly KeptItem[], forMs: number): Promise<void> | null;
  /** Those of the items that are known. They are kept for that long again. It does not reject. */
  find(keyId: string, ids: readonly string[], forMs: number): FoundItems | Promise<FoundItems>;
}

/** Whether the items of one answer are small enough to be kept, all of them: some alone would be of no use. */
export function canKeep(items: readonly KeptItem[]): boolean {
  return items.reduce((sum, { id, json }) => sum + id.length + json.length, 0) <= answerCharactersMax;
}

/** More than any model writes in one answer. */
const answerCharactersMax = 1024 * 1024;
