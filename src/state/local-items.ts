import type { FoundItems, ItemMemory, KeptItem } from "../operations/conversation/kept-items.ts";

export interface LocalItemsOptions {
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly bytesMax?: number;
  readonly keyBytesMax?: number;
}

/** Items in the memory of this process. What was used longest ago goes first where there are too many: of the key, or of all. */
export class LocalItems implements ItemMemory {
  /** In the order of their last use. */
  private readonly all = new Map<string, LocalItem>();
  private readonly byKey = new Map<string, ItemsOfKey>();
  private readonly bytesMax: number;
  private readonly keyBytesMax: number;
  private bytes = 0;
  private cancelTimer: (() => void) | null = null;

  constructor(private readonly options: LocalItemsOptions) {
    this.bytesMax = options.bytesMax ?? 32 * 1024 * 1024;
    this.keyBytesMax = options.keyBytesMax ?? this.bytesMax / 2;
  }

  /** How much memory the items take, at most. */
  get size(): number {
    return this.bytes;
  }

  keep(keyId: string, items: readonly KeptItem[], forMs: number): null {
    const untilMs = this.options.nowMs() + forMs;
    for (const { id, json } of items) this.add({ keyId, id, json, untilMs });
    this.forgetLater();
    return null;
  }

  find(keyId: string, ids: readonly string[], forMs: number): FoundItems {
    const nowMs = this.options.nowMs();
    const found = new Map<string, string>();
    for (const id of ids) {
      const item = this.all.get(nameOf(keyId, id));
      if (item === undefined || item.untilMs <= nowMs) continue;
      found.set(id, item.json);
      this.add({ ...item, untilMs: nowMs + forMs });
    }
    return found;
  }

  stop(): void {
    this.cancelTimer?.();
    this.cancelTimer = null;
    this.all.clear();
    this.byKey.clear();
    this.bytes = 0;
  }

  private add(item: LocalItem): void {
    const { keyId, id } = item;
    const name = nameOf(keyId, id);
    this.remove(name);
    const bytes = bytesOf(item);
    if (bytes > this.keyBytesMax) return;
    const own = this.byKey.get(keyId) ?? { names: new Set<string>(), bytes: 0 };
    this.byKey.set(keyId, own);
    this.all.set(name, item);
    own.names.add(name);
    own.bytes += bytes;
    this.bytes += bytes;
    for (const oldest of own.names) {
      if (own.bytes <= this.keyBytesMax) break;
      this.remove(oldest);
    }
    for (const oldest of this.all.keys()) {
      if (this.bytes <= this.bytesMax) break;
      this.remove(oldest);
    }
  }

  private remove(name: string): void {
    const item = this.all.get(name);
    const own = item === undefined ? undefined : this.byKey.get(item.keyId);
    if (item === undefined || own === undefined) return;
    this.all.delete(name);
    own.names.delete(name);
    own.bytes -= bytesOf(item);
    this.bytes -= bytesOf(item);
    if (own.names.size === 0) this.byKey.delete(item.keyId);
  }

  /** What nobody asks for any more does not stay in memory either. */
  private forgetLater(): void {
    if (this.cancelTimer !== null || this.all.size === 0) return;
    this.cancelTimer = this.options.after(forgetEveryMs, () => {
      this.cancelTimer = null;
      const nowMs = this.options.nowMs();
      for (const [name, { untilMs }] of this.all) if (untilMs <= nowMs) this.remove(name);
      this.forgetLater();
    });
  }
}

interface LocalItem extends KeptItem {
  readonly keyId: string;
  readonly untilMs: number;
}

interface ItemsOfKey {
  /** In the order of their last use. */
  readonly names: Set<string>;
  bytes: number;
}

function nameOf(keyId: string, id: string): string {
  return JSON.stringify([keyId, id]);
}

/** Texts take up to two bytes for each character; the rest is for the entries of the maps. */
function bytesOf({ keyId, id, json }: LocalItem): number {
  return 2 * (json.length + 3 * (keyId.length + id.length)) + 256;
}

const forgetEveryMs = 60_000;
