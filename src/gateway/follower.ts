import type { ChangedGroups, ChangedKey, Storage } from "./storage.ts";

export interface FollowerPorts {
  readonly storage: Pick<Storage, "keys" | "groups" | "revision">;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Groups that have changed. Called before changes of keys are reported. */
  readonly onGroups: (changed: ChangedGroups, revision: number) => void;
  /** All changes of keys since the last call. Also called without changes, which confirms that there are none. */
  readonly onKeys: (keys: readonly ChangedKey[]) => void;
  /** There were too many changes to list. Returns the keys that matter; they are read one by one and reported through `onRenewed`. */
  readonly onUnsure: () => Iterable<string>;
  readonly onRenewed: (keys: readonly ChangedKey[]) => void;
  /** Something changed: channels and prices are read again. */
  readonly onChange: () => void | Promise<void>;
  /** The store became unreachable or reachable. */
  readonly onReach: (reached: boolean) => void;
}

/**
 * Notices changes that other processes make in the store, such as a revoked key or a new channel. It polls every second, one query at
 * a time.
 */
export class Follower {
  private revision = 0;
  /** The revision of the groups that were reported last. Null: all of them are to be read. */
  private groupRevision: number | null = 0;
  private disarm: (() => void) | null = null;
  private stopped = false;
  private reached = true;
  /** A change was seen and not reported yet. */
  private owed = false;
  private telling: Promise<void> | null = null;

  constructor(private readonly ports: FollowerPorts) {}

  /** Starts after what was already read: at this revision, or at the store's present one. */
  async start(from: number | null = null): Promise<void> {
    try {
      this.groupRevision = this.revision = from ?? (await this.ports.storage.revision());
    } catch {
      this.reach(false);
    }
    this.later();
  }

  stop(): void {
    this.stopped = true;
    this.disarm?.();
  }

  /** Polls now. Resolves when that is done, whether or not the store answered. */
  async look(): Promise<void> {
    await this.see();
    await this.telling;
  }

  private async see(): Promise<void> {
    try {
      const { revision, keys } = await this.ports.storage.keys.changedSince(this.revision, changesMax);
      if (this.stopped) return;
      this.reach(true);
      if (revision !== this.groupRevision) await this.seeGroups();
      if (this.stopped) return;
      if (keys === "all") await this.renew();
      if (this.stopped) return;
      this.ports.onKeys(keys === "all" ? [] : keys);
      if (revision !== this.revision) this.owed = true;
      this.revision = revision;
      if (this.owed) this.tell();
    } catch {
      // What comes back may be a standby that never had the last changes: nothing would tell that those are undone.
      this.groupRevision = null;
      this.reach(false);
    }
  }

  private async seeGroups(): Promise<void> {
    const { revision, ...changed } = await this.ports.storage.groups.changedSince(this.groupRevision);
    if (this.stopped) return;
    if (changed.isWhole || changed.groups.length > 0) this.ports.onGroups(changed, revision);
    this.groupRevision = revision;
  }

  /** Reading channels may take a while, and a revoked key must not wait for it. If it fails, it is repeated after the next poll. */
  private tell(): void {
    if (this.telling !== null) return;
    this.owed = false;
    this.telling = (async () => this.ports.onChange())()
      .catch(() => {
        this.owed = true;
      })
      .finally(() => {
        this.telling = null;
      });
  }

  /** If the store is lost half-way, the revision is not advanced, and everything is read again. */
  private async renew(): Promise<void> {
    const ids = [...new Set(this.ports.onUnsure())];
    for (let at = 0; at < ids.length && !this.stopped; at += renewedAtOnce) {
      const keys = await this.ports.storage.keys.current(ids.slice(at, at + renewedAtOnce));
      if (!this.stopped) this.ports.onRenewed(keys);
    }
  }

  private later(): void {
    if (this.stopped) return;
    this.disarm = this.ports.after(everyMs, () => {
      void this.see().then(() => this.later());
    });
  }

  private reach(reached: boolean): void {
    if (reached === this.reached) return;
    this.reached = reached;
    this.ports.onReach(reached);
  }
}

const everyMs = 1_000;
const changesMax = 1_000;
const renewedAtOnce = 1_000;
