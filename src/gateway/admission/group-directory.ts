import type { Group } from "../../keys/group.ts";
import { GroupTree, noGroups, type ChainProblem } from "../../keys/group-tree.ts";
import type { Key } from "../../keys/key.ts";
import type { ChangedGroups } from "../storage.ts";

export interface GroupDirectoryPorts {
  /** All groups of the store, as they were at a revision or later. */
  readonly read: () => Promise<{ readonly revision: number } & ChangedGroups>;
  /** Milliseconds on a monotonic clock. */
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** The groups have changed: one may be frozen now. */
  readonly onChange: (tree: GroupTree) => void;
}

/** The groups of the configuration and of the store, as far as this process knows them: its follower reports changes. */
export class GroupDirectory {
  private inFile: readonly Group[] = [];
  private inStore: ReadonlyMap<string, Group> = new Map();
  private current = noGroups;
  /** The revision at which `inStore` was read, at the earliest. */
  private revision = 0;
  /** The next look into the store, as long as it has not begun. */
  private nextRead: Promise<void> | null = null;
  private readMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly ports: GroupDirectoryPorts) {}

  get tree(): GroupTree {
    return this.current;
  }

  setFile(groups: readonly Group[]): void {
    if (groups === this.inFile) return;
    this.inFile = groups;
    this.build();
  }

  /** What the follower found. It asks for the same again if it began before the last look here, which must not be undone. */
  changed(changed: ChangedGroups, revision: number): void {
    if (!changed.isWhole && revision < this.revision) return;
    this.revision = revision;
    this.setStored(changed);
  }

  /** The key with its groups; null if its group is not known. */
  attached(key: Key): Key | null {
    return this.current.attached(key);
  }

  /** The same, after another look into the store: a key and its group may have been made a moment ago. */
  async attachedLater(key: Key): Promise<Key | null | "unavailable"> {
    try {
      await this.readSoon();
    } catch {
      return "unavailable";
    }
    return this.current.attached(key);
  }

  /** Why a key has no groups attached; null if it can have them now. */
  problemOf({ group }: Key): ChainProblem | null {
    return group === null ? null : this.current.chainProblem(group);
  }

  /** The id of a group of the store by its id or its name; null if there is none, also after another look into the store. */
  async storedGroupId(idOrName: string): Promise<string | null | "unavailable"> {
    const known = this.storedId(idOrName);
    if (known !== null) return known;
    try {
      await this.readSoon();
    } catch {
      return "unavailable";
    }
    return this.storedId(idOrName);
  }

  private storedId(idOrName: string): string | null {
    if (this.inStore.has(idOrName)) return idOrName;
    for (const { id, name } of this.inStore.values()) if (name === idOrName) return id;
    return null;
  }

  async read(): Promise<void> {
    const { revision, ...read } = await this.ports.read();
    // It may have taken long, and must not undo what was reported meanwhile, such as that a group is frozen.
    if (revision < this.revision) return;
    this.revision = revision;
    this.setStored(read);
  }

  /** A look that begins after this moment, shared by all who wait for one. */
  private readSoon(): Promise<void> {
    this.nextRead ??= this.pause().then(() => {
      this.nextRead = null;
      this.readMs = this.ports.nowMs();
      return this.read();
    });
    return this.nextRead;
  }

  private pause(): Promise<void> {
    const waitMs = this.readMs + readAgainMs - this.ports.nowMs();
    if (waitMs <= 0) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ports.after(waitMs, resolve);
    return promise;
  }

  private setStored({ isWhole, groups }: ChangedGroups): void {
    if (groups.length + this.inStore.size === 0) return;
    const stored = new Map(isWhole ? [] : this.inStore);
    for (const { id, group } of groups) {
      if (group === null) stored.delete(id);
      else stored.set(id, group);
    }
    this.inStore = stored;
    this.build();
  }

  private build(): void {
    this.current = new GroupTree([...this.inFile, ...this.inStore.values()]);
    this.ports.onChange(this.current);
  }
}

/** Calls of keys whose group is missing read all groups together, and not more often than this. */
const readAgainMs = 500;
