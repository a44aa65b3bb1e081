import { describe, expect, test } from "bun:test";
import { TokenCache } from "../../../../src/net/credentials/token-cache.ts";
import type { AccessToken } from "../../../../src/net/credentials/token-request.ts";
import { failure, type Failure } from "../../../../src/operations/failure.ts";

/** A token service that answers when the test says so, and a clock that the test moves. */
class Service {
  nowMs = 1_000_000;
  readonly waiting: ((answer: AccessToken | Failure) => void)[] = [];
  asked = 0;
  readonly cache = new TokenCache(() => this.nowMs);

  token(identity = "one"): string | Promise<string | Failure> {
    return this.cache.token(identity, () => {
      this.asked += 1;
      return new Promise((resolve) => this.waiting.push(resolve));
    });
  }

  answer(answer: AccessToken | Failure): Promise<void> {
    for (const resolve of this.waiting.splice(0)) resolve(answer);
    return settled();
  }

  async first(lifetimeMs = 3_600_000): Promise<void> {
    const token = this.token();
    await this.answer({ value: "first", lifetimeMs });
    expect(await token).toBe("first");
  }
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
}

const refusal = failure("unauthorized", "the token service answered 400: invalid_grant", { scope: "credential" });

describe("a cache of access tokens", () => {
  test("asks once for all calls that wait", async () => {
    const service = new Service();
    const calls = [service.token(), service.token(), service.token()];
    expect(service.asked).toBe(1);
    await service.answer({ value: "first", lifetimeMs: 3_600_000 });
    expect(await Promise.all(calls)).toEqual(["first", "first", "first"]);
  });

  test("gives a known token at once, without asking", async () => {
    const service = new Service();
    await service.first();
    service.nowMs += 54 * 60_000;
    expect(service.token()).toBe("first");
    expect(service.asked).toBe(1);
  });

  test("renews ahead of expiry, in the background and by one request", async () => {
    const service = new Service();
    await service.first();
    service.nowMs += 56 * 60_000;
    expect([service.token(), service.token()]).toEqual(["first", "first"]);
    expect(service.asked).toBe(2);
    await service.answer({ value: "second", lifetimeMs: 3_600_000 });
    expect(service.token()).toBe("second");
  });

  test("keeps a valid token while its renewal fails, and does not ask for another one at every call", async () => {
    const service = new Service();
    await service.first();
    service.nowMs += 56 * 60_000;
    void service.token();
    await service.answer(refusal);
    expect([service.token(), service.token()]).toEqual(["first", "first"]);
    expect(service.asked).toBe(2);
    service.nowMs += 20_000;
    expect(service.token()).toBe("first");
    expect(service.asked).toBe(3);
  });

  test("fails clearly once the token is no longer valid, and recovers", async () => {
    const service = new Service();
    await service.first();
    service.nowMs += 3_600_000;
    const late = service.token();
    await service.answer(refusal);
    expect(await late).toBe(refusal);
    const again = service.token();
    await service.answer({ value: "second", lifetimeMs: 3_600_000 });
    expect(await again).toBe("second");
  });

  test("does not send a token that is about to expire", async () => {
    const service = new Service();
    await service.first();
    service.nowMs += 3_595_000;
    expect(service.token()).not.toBe("first");
  });

  test("renews a short-lived token in its last fifth", async () => {
    const service = new Service();
    await service.first(100_000);
    service.nowMs += 79_000;
    expect(service.token()).toBe("first");
    expect(service.asked).toBe(1);
    service.nowMs += 2_000;
    expect(service.token()).toBe("first");
    expect(service.asked).toBe(2);
  });

  test("drops a token that the upstream refused, but not its successor", async () => {
    const service = new Service();
    await service.first();
    service.cache.forget("one", "another");
    expect(service.token()).toBe("first");
    service.cache.forget("one", "first");
    expect(service.cache.known).toEqual([]);
    expect(service.token()).toBeInstanceOf(Promise);
  });

  test("keeps identities apart", async () => {
    const service = new Service();
    await service.first();
    expect(service.token("two")).toBeInstanceOf(Promise);
    expect(service.asked).toBe(2);
  });
});
