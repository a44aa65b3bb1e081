import type { ChangedKey, Storage } from "./storage.ts";

export interface FollowerPorts {
  readonly storage: Pick<Storage, "keys" | "revision">;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Everything that changed of keys since the last time; also told when nothing did, for then that is certain. */
  readonly onKeys: (keys: readonly ChangedKey[]) => void;
  /** Too much changed to be told. Tells which keys matter: those are looked at one by one, and told as they are now. */
  readonly onUnsure: () => Iterable<string>;
  readonly onRenewed: (keys: readonly ChangedKey[]) => void;
  /** Something changed that is not a key, or is: channels and prices are read anew. */
  readonly onChange: () => void | Promise<void>;
  /** The store stopped answering, or answers again. */
  readonly onReach: (reached: boolean) => void;
}

/** Notices what others change in the store: a revoked key, a new channel. Asks every second, one question at a time. */
export class Follower {
  private revision = 0;
  private disarm: (() => void) | null = null;
  private stopped = false;
  private reached = true;
  /** Something changed that was not told yet. */
  private owed = false;
  private telling: Promise<void> | null = null;

  constructor(private readonly ports: FollowerPorts) {}

  /** Begins after what was already read: at this revision, or else at what the store holds now. */
  async start(from: number | null = null): Promise<void> {
    try {
      this.revision = from ?? (await this.ports.storage.revision());
    } catch {
      this.reach(false);
    }
    this.later();
  }

  stop(): void {
    this.stopped = true;
    this.disarm?.();
  }

  /** Looks now; resolves when it is done, whether or not the store answered. */
  async look(): Promise<void> {
    await this.see();
    await this.telling;
  }

  private async see(): Promise<void> {
    try {
      const { revision, keys } = await this.ports.storage.keys.changedSince(this.revision, changesMax);
      if (this.stopped) return;
      this.reach(true);
      if (keys === "all") await this.renew();
      if (this.stopped) return;
      this.ports.onKeys(keys === "all" ? [] : keys);
      if (revision !== this.revision) this.owed = true;
      this.revision = revision;
      if (this.owed) this.tell();
    } catch {
      this.reach(false);
    }
  }

  /** Reading channels may take a while, and no revoked key waits for it. What went wrong is told again after the next look. */
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

  /** Should the store be lost in the middle of it, the revision stays where it was, and it begins anew. */
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
