import { canKeep, type ItemMemory, type KeptItem } from "../../operations/conversation/kept-items.ts";
import type { Persisted } from "../settlement/record.ts";

/** The items of one answer. They are kept once it is certain that the client gets this answer, and no other of the call. */
export class AnswerItems {
  private items: readonly KeptItem[] = [];

  constructor(
    private readonly memory: ItemMemory,
    private readonly keyId: string,
    private readonly forMs: number,
  ) {}

  /** Whether they will be kept. */
  readonly add = (items: readonly KeptItem[]): boolean => {
    if (!canKeep(items)) return false;
    this.items = items;
    return true;
  };

  keep(): Persisted {
    return this.items.length === 0 ? null : this.memory.keep(this.keyId, this.items, this.forMs);
  }
}
