import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AuthFailures } from "../../../src/http/auth-failures.ts";
import { clientNetwork } from "../../../src/net/server/client-network.ts";
import { errorResponse } from "../../../src/http/errors.ts";
import { ResponseHead } from "../../../src/net/server/http-response.ts";
import { asResponse } from "../../support/http-answer.ts";

function world(bounds?: ConstructorParameters<typeof AuthFailures>[1]) {
  const clock = { nowMs: 5_000 };
  return { clock, failures: new AuthFailures(() => clock.nowMs, bounds) };
}

describe("requests without a valid key", () => {
  test("get their usual answer thirty times, and then are told that they are too many, with a time", async () => {
    const { failures } = world();
    for (let count = 0; count < 30; count += 1) expect(failures.note("10.0.0.1")).toBeNull();
    const refused = failures.note("10.0.0.1");
    const response = asResponse(errorResponse(refused!, new ResponseHead("req_1"), refused!.retryAfterMs));
    expect(response.status).toBe(429);
    expect(response.headers.get("retry-after")).toBe("2");
    const { error } = (await response.json()) as { readonly error: Readonly<Record<string, unknown>> };
    expect(error).toMatchObject({ code: "too_many_auth_failures", type: "rate_limit_error" });
  });

  test("are answered as usual again after the time that was told, once for each two seconds", () => {
    const { clock, failures } = world();
    for (let count = 0; count < 30; count += 1) failures.note("10.0.0.1");
    const { retryAfterMs } = failures.note("10.0.0.1")!;
    clock.nowMs += retryAfterMs! - 1;
    expect(failures.note("10.0.0.1")).not.toBeNull();
    clock.nowMs += 1;
    expect(failures.note("10.0.0.1")).toBeNull();
    expect(failures.note("10.0.0.1")).not.toBeNull();
    clock.nowMs += 60_000;
    for (let count = 0; count < 30; count += 1) expect(failures.note("10.0.0.1")).toBeNull();
  });

  test("are shared out among the processes behind one address, and each of those allows at least one", () => {
    const of = (processes: number, perMinuteMax: number): number => {
      const failures = new AuthFailures(() => 5_000, undefined, processes);
      let answered = 0;
      while (failures.note("10.0.0.1", perMinuteMax) === null) answered += 1;
      return answered;
    };
    expect([of(1, 30), of(2, 30), of(4, 30), of(8, 30), of(4, 1)]).toEqual([30, 15, 7, 3, 1]);
  });

  test("at a rate of thirty a minute are never refused", () => {
    const { clock, failures } = world();
    for (let count = 0; count < 300; count += 1) {
      expect(failures.note("10.0.0.1")).toBeNull();
      clock.nowMs += 2_000;
    }
  });

  test("of one address do not speak against another", () => {
    const { failures } = world();
    for (let count = 0; count < 100; count += 1) failures.note("10.0.0.1");
    expect(failures.note("10.0.0.2")).toBeNull();
  });

  test("from a million addresses take no more memory than the bound, and the one that goes on stays known", () => {
    const { failures } = world({ perMinuteMax: 30, networksMax: 1_000 });
    let refused = 0;
    for (let count = 0; count < 20_000; count += 1) {
      failures.note(`10.${count >> 16}.${(count >> 8) & 255}.${count & 255}`);
      if (count % 100 === 0 && failures.note("192.0.2.1") !== null) refused += 1;
      expect(failures.size).toBeLessThanOrEqual(1_000);
    }
    expect(refused).toBe(170);
  });

  test("are forgotten when they have expired", () => {
    const { clock, failures } = world();
    for (let count = 0; count < 500; count += 1) failures.note(`10.0.0.${count}`);
    clock.nowMs += 2_001;
    failures.note("192.0.2.1");
    expect(failures.size).toBe(1);
  });

  test("whenever they come, get the usual answer at most sixty times in any minute, and thirty at least when they are as many", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 4_000 }), { minLength: 40, maxLength: 200 }), (pauses) => {
        const { clock, failures } = world();
        const times: number[] = [];
        let asked = 0;
        const startMs = clock.nowMs;
        for (const pauseMs of pauses) {
          clock.nowMs += pauseMs;
          asked += 1;
          if (failures.note("10.0.0.1") === null) times.push(clock.nowMs);
        }
        for (const fromMs of times) {
          expect(times.filter((atMs) => atMs >= fromMs && atMs < fromMs + 60_000).length).toBeLessThanOrEqual(60);
        }
        expect(times.length).toBeGreaterThanOrEqual(Math.min(asked, 30));
        expect(times.length).toBeLessThanOrEqual(30 + Math.floor((clock.nowMs - startMs) / 2_000) + 1);
      }),
      { numRuns: 100 },
    );
  });
});

describe("a place", () => {
  test.each([
    ["10.1.2.3", "10.1.2.3"],
    ["::ffff:10.1.2.3", "10.1.2.3"],
    ["::FFFF:10.1.2.3", "10.1.2.3"],
    ["0:0:0:0:0:ffff:10.1.2.3", "10.1.2.3"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:0db8:0001:0002::6", "2001:db8:1:2::/64"],
    ["2001:db8::6", "2001:db8:0:0::/64"],
    ["2001:db8:0:0:ffff::", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["", ""],
  ])("of %p is %p", (address, place) => {
    expect(clientNetwork(address)).toBe(place);
  });

  test("is never long, whatever the address is", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ maxLength: 500 }), fc.ipV6(), fc.ipV4()), (address) => clientNetwork(address).length <= 64),
      { numRuns: 300 },
    );
  });
});
