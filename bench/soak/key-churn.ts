import type { Admin } from "./admin.ts";

export interface SoakKey {
  readonly id: string;
  readonly token: string;
  readonly inGroup: boolean;
}

/** Keys that come, change and go while calls are made with them. */
export class KeyChurn {
  /** Those that calls are made with. */
  readonly keys: SoakKey[] = [];
  /** Every key there ever was, by its id: whether it belongs to the group. */
  readonly everyone = new Map<string, boolean>();
  readonly problems: string[] = [];
  readonly done = { created: 0, rotated: 0, revoked: 0 };
  groupId = "";
  private readonly leaving: { readonly key: SoakKey; readonly revokeMs: number }[] = [];
  private readonly revoked: { readonly key: SoakKey; readonly checkMs: number }[] = [];
  private turn = 0;

  constructor(
    private readonly admin: Admin,
    private readonly origin: string,
  ) {}

  async begin(): Promise<void> {
    const limits = { budget_usd: 100_000, unpriced: "allow" };
    this.groupId = (await this.admin.post<{ id: string }>("/groups", { name: "soak", kind: "team", limits })).id;
    for (let count = 0; count < keysMin; count += 1) await this.create();
  }

  /** One step, about once a second. A failure is a problem, and the next step is made all the same. */
  async step(nowMs: number): Promise<void> {
    try {
      this.turn += 1;
      await this.revokeLeaving(nowMs);
      await this.checkRevoked(nowMs);
      if (this.turn % 4 === 0) await this.create();
      if (this.turn % 4 === 1) await this.rotate();
      if (this.keys.length > keysMin) {
        const key = this.keys.shift();
        if (key !== undefined) this.leaving.push({ key, revokeMs: nowMs + restMs });
      }
    } catch (error) {
      this.problems.push(`a change of keys failed: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private async create(): Promise<void> {
    const inGroup = this.done.created % 2 === 1;
    const made = await this.admin.post<{ id: string; token: string }>("/keys", {
      name: `soak-${this.done.created}`,
      limits: { rpm: 1_000_000, tpm: 1_000_000_000, concurrency: 10_000, budget_usd: 10_000, unpriced: "allow" },
      ...(inGroup ? { group: this.groupId } : {}),
    });
    this.done.created += 1;
    this.everyone.set(made.id, inGroup);
    this.keys.push({ id: made.id, token: made.token, inGroup });
  }

  /** Calls that already have the old token may use it for a while. */
  private async rotate(): Promise<void> {
    const at = this.turn % this.keys.length;
    const key = this.keys[at];
    if (key === undefined) return;
    const { token } = await this.admin.post<{ token: string }>(`/keys/${key.id}/rotate`, { overlap_seconds: 30 });
    this.keys[at] = { ...key, token };
    this.done.rotated += 1;
  }

  /** When the last calls of a key have ended, since a revocation would end them. */
  private async revokeLeaving(nowMs: number): Promise<void> {
    const [next] = this.leaving;
    if (next === undefined || nowMs < next.revokeMs) return;
    this.leaving.shift();
    await this.admin.post(`/keys/${next.key.id}/revoke`, {});
    this.done.revoked += 1;
    this.revoked.push({ key: next.key, checkMs: nowMs + revokedWithinMs });
  }

  private async checkRevoked(nowMs: number): Promise<void> {
    const [next] = this.revoked;
    if (next === undefined || nowMs < next.checkMs) return;
    this.revoked.shift();
    const response = await fetch(`${this.origin}/v1/models`, { headers: { authorization: `Bearer ${next.key.token}` } });
    const text = await response.text();
    // The soak itself has sent so many wrong keys by then that it may be told to wait instead.
    const isThrottled = response.status === 429 && text.includes('"too_many_auth_failures"');
    if (response.status !== 401 && !isThrottled) this.problems.push(`a revoked key was answered with ${response.status}`);
  }
}

/** As many are there from the beginning. */
export const keysMin = 8;
const restMs = 30_000;
const revokedWithinMs = 5_000;
