import { describe, expect, test } from "bun:test";
import { budgetFamilies, type BudgetState, type ChannelState } from "../../../../src/telemetry/metrics/state-metrics.ts";
import type { PostOutcome } from "../../../../src/telemetry/otlp/otlp-exporter.ts";
import { budgetNotices, ChannelWatch, costNotices, expiryNotices, noticeTypes } from "../../../../src/telemetry/webhooks/notices.ts";
import { signatureHeaders, WebhookSender } from "../../../../src/telemetry/webhooks/webhook-sender.ts";
import { noticeTypes as configured } from "../../../../src/config/schema.ts";
import { eventually } from "../../../support/eventually.ts";
import { otlpPorts, taken } from "../../../support/telemetry.ts";

const dollar = 1_000_000_000;
const hour = 3_600_000;

describe("a notice", () => {
  const budget = (spentNanos: number, sinceMs: number | null = 0): BudgetState => ({
    of: "key",
    id: "a",
    name: "laptop",
    models: "",
    limitNanos: 10 * dollar,
    spentNanos,
    sinceMs,
    isRefusing: false,
  });

  test.each([
    [7.99, null],
    [8, "budget.warning"],
    [9.99, "budget.warning"],
    [10, "budget.spent"],
    [12, "budget.spent"],
  ])("of a budget of ten dollars with %p spent is %p", (dollars, type) => {
    expect(budgetNotices([budget(dollars * dollar)]).map((notice) => notice.type) as (string | null)[]).toEqual(
      type === null ? [] : [type],
    );
  });

  test.each([
    [7.5, false, [], 0],
    [7.5, true, ["budget.spent"], 1],
    [8, true, ["budget.spent"], 1],
    [9.99, true, ["budget.spent"], 1],
    [9.99, false, ["budget.warning"], 0],
  ])(
    "of a budget of ten dollars with %p spent that refuses calls: %p, are %p, long before the last cent",
    (dollars, isRefusing, types, shown) => {
      const state = { ...budget(dollars * dollar), isRefusing };
      expect(budgetNotices([state]).map(({ type }): string => type)).toEqual(types);
      expect(budgetFamilies([state]).find(({ name }) => name === "sluice_budget_refused")?.series).toEqual([
        { labels: ["a", ""], value: shown },
      ]);
    },
  );

  test("of a budget is the same for its period, and another one in the next", () => {
    const ids = [budget(8 * dollar), budget(9 * dollar), budget(8 * dollar, hour), budget(10 * dollar)].map(
      (one) => budgetNotices([one])[0]?.id,
    );
    expect(new Set(ids).size).toBe(3);
    expect(ids[0]).toBe(ids[1]);
  });

  test("of a budget that is spent comes once more at its end if a large call was refused long before", () => {
    const ids = [8.2, 9, 9.5, 9.99, 10, 11].map((dollars) => budgetNotices([{ ...budget(dollars * dollar), isRefusing: true }])[0]?.id);
    expect([ids[0] === ids[1], ids[1] === ids[2], new Set(ids.slice(2)).size]).toEqual([true, false, 1]);
  });

  test("of a budget names its key or its group", () => {
    const notices = budgetNotices([budget(8 * dollar), { ...budget(8 * dollar), of: "group", id: "grp_web", name: "web" }]);
    expect(notices.map(({ data }) => [data["key"], data["group"], data["name"]])).toEqual([
      ["a", undefined, "laptop"],
      [undefined, "grp_web", "web"],
    ]);
  });

  test("comes a week and a day before a key expires, and not after it has", () => {
    const ids = (leftMs: number | null) =>
      expiryNotices([{ id: "a", name: "A", expiresMs: leftMs === null ? null : 1e12 + leftMs }], 1e12).map(({ id }) => id);
    expect([ids(null), ids(8 * 24 * hour), ids(-1)]).toEqual([[], [], []]);
    expect(ids(6 * 24 * hour)).not.toEqual(ids(hour));
    expect(ids(6 * 24 * hour).length).toBe(1);
  });

  test.each([
    ["three times the usual hour", 3, Array<number>(24).fill(1), true],
    ["twice the usual hour", 2, Array<number>(24).fill(1), false],
    ["ten times next to nothing", 0.5, Array<number>(24).fill(0.05), false],
    ["the first hour of all", 50, [], false],
    ["the second hour of all", 50, [1], false],
    ["an hour like the others, after a day on which nothing was spent", 5, [...Array<number>(20).fill(0), 5, 5, 5, 5], false],
    ["three times the hours in which anything was spent", 15, [...Array<number>(20).fill(0), 5, 5, 5, 5], true],
  ])("of costs: %s", (_, dollars, before, isJump) => {
    const hours = [...before, dollars].map((one, at) => ({ atMs: (at + 1) * hour, nanos: one * dollar }));
    const notices = costNotices(hours, hours.length * hour);
    expect(notices.length).toBe(isJump ? 1 : 0);
    if (isJump) expect(notices[0]?.data).toMatchObject({ cost_usd: dollars, usual_usd: before.at(-1) });
  });

  test("of a channel comes when it is down for two looks, and when it is back", () => {
    const watch = new ChannelWatch("instance");
    const look = (isAvailable: boolean) =>
      watch.look([{ name: "one", isAvailable, isProven: isAvailable } as ChannelState]).map(({ type }) => type);
    expect([true, false, true, false, false, false, true, true].map(look)).toEqual([
      [],
      [],
      [],
      [],
      ["channel.down"],
      [],
      ["channel.up"],
      [],
    ]);
  });

  test("of a channel that is tried again and again in vain comes once, and that it is back only when it has answered", () => {
    const watch = new ChannelWatch("instance");
    const look = (state: "cooling" | "half open" | "closed") =>
      watch.look([{ name: "one", isAvailable: state !== "cooling", isProven: state === "closed" } as ChannelState]).map(({ type }) => type);
    const outage = ["cooling", "cooling", "half open", "half open", "cooling", "cooling", "half open"] as const;
    expect(outage.flatMap(look)).toEqual(["channel.down"]);
    expect(look("closed")).toEqual(["channel.up"]);
    // Before that it was not told to be down, so a probe ends the row.
    expect((["cooling", "half open", "cooling", "closed"] as const).flatMap(look)).toEqual([]);
  });

  test("has a type that the configuration knows", () => {
    expect<readonly string[]>(noticeTypes).toEqual(configured);
  });
});

describe("a webhook", () => {
  const notice = { id: "key.expiring:a", type: "key.expiring", data: { key: "a" } } as const;

  function sender(answer: () => PostOutcome = () => taken, types: readonly ("key.expiring" | "cost.jump")[] = ["key.expiring"]) {
    const ports = otlpPorts(answer);
    const lost: string[] = [];
    const webhooks = [{ url: "https://receiver.test/hook", secret: "0123456789abcdef", types }];
    return {
      ports,
      lost,
      sender: new WebhookSender(webhooks, {
        ...ports,
        onLoss: (webhook, reason, types) => lost.push(`${webhook} ${types.join(" ")}: ${reason}`),
      }),
    };
  }

  test("is told once, however often the same is noticed, and only of what it wants", async () => {
    const one = sender();
    one.sender.tell([notice, notice]);
    one.sender.tell([notice, { ...notice, id: "other", type: "cost.jump" }]);
    await one.ports.fire();
    expect(one.ports.requests.map(({ url, body }) => [url, JSON.parse(body) as unknown])).toEqual([
      ["https://receiver.test/hook", { type: "key.expiring", timestamp: "2023-11-14T22:13:25.000Z", data: { key: "a" } }],
    ]);
    expect(one.ports.requests[0]?.headers).toMatchObject({
      "webhook-timestamp": "1700000005",
      "webhook-id": expect.stringMatching(/^msg_[0-9a-f]{32}$/),
    });
  });

  test("that is gone keeps 500 notices waiting, and what is lost beyond that is reported once and counted", () => {
    const gone = sender(() => ({ ...taken, status: null }));
    gone.sender.tell(Array.from({ length: 600 }, (_, at) => ({ ...notice, id: `expiring-${at}` })));
    expect(gone.lost).toEqual(["receiver.test key.expiring: more than 500 notices wait for the receiver"]);
    const [status] = gone.sender.status();
    expect(status!.lost + status!.waiting).toBeGreaterThanOrEqual(599);
    expect(status!.lost).toBeGreaterThanOrEqual(99);
    const counted = gone.sender.families().map(({ name, labels, series }) => [name, labels, series]);
    expect(counted).toEqual([
      ["sluice_webhook_delivered_total", ["webhook"], [{ labels: ["1"], value: 0 }]],
      ["sluice_webhook_lost_total", ["webhook"], [{ labels: ["1"], value: status!.lost }]],
    ]);
  });

  test("that is busy is told again with the same id; one that refuses, follows a redirect or is gone is not", async () => {
    const answers: PostOutcome[] = [{ ...taken, status: 503 }, { ...taken, status: null }, taken];
    const busy = sender(() => answers.shift()!);
    busy.sender.tell([notice]);
    for (let round = 0; round < 5; round += 1) await busy.ports.fire();
    expect(busy.ports.requests.length).toBe(3);
    expect(new Set(busy.ports.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    for (const status of [302, 400, 410]) {
      const refusing = sender(() => ({ ...taken, status }));
      refusing.sender.tell([notice]);
      for (let round = 0; round < 3; round += 1) await refusing.ports.fire();
      expect(refusing.ports.requests.length).toBe(1);
      expect(refusing.lost).toEqual([`receiver.test key.expiring: the receiver answered with ${status}`]);
    }
  });

  test("that was away is told what it missed when it is noticed again, with the same id; what it refused is not", async () => {
    const id = (at: number) => answered.ports.requests[at]?.headers["webhook-id"];
    let status: number | null = null;
    const answered = sender(() => ({ ...taken, status }));
    answered.sender.tell([notice]);
    for (let round = 0; round < 20; round += 1) await answered.ports.fire();
    expect([answered.ports.requests.length, answered.lost.length]).toEqual([16, 1]);
    status = 400;
    answered.sender.tell([notice]);
    await answered.ports.fire();
    expect(answered.ports.requests.length).toBe(17);
    expect(new Set([id(0), id(16)]).size).toBe(1);
    answered.sender.tell([notice]);
    await answered.ports.fire();
    expect(answered.ports.requests.length).toBe(17);
  });

  test("that had no room for a notice gets it when it is noticed again and there is room, and the others get it once", async () => {
    const ports = otlpPorts();
    const urls = ["https://slow.test", "https://quick.test"];
    const pending = Promise.withResolvers<PostOutcome>();
    const post: typeof ports.post = (url, headers, body) => {
      const reply = ports.post(url, headers, body);
      return url === urls[0] ? pending.promise : reply;
    };
    const webhooks = urls.map((url) => ({ url, secret: "0123456789abcdef", types: noticeTypes }));
    const both = new WebhookSender(webhooks, { ...ports, post, onLoss: () => {} });
    const delivered = () => both.status().map((status) => status.delivered);
    // One is on its way to the slow one, and the others wait.
    both.tell(Array.from({ length: 501 }, (_, at) => ({ ...notice, id: `expiring-${at}` })));
    both.tell([notice]);
    await eventually("all are at the quick one", () => delivered()[1] === 501);
    both.tell([notice]);
    expect(both.status()[0]).toMatchObject({ waiting: 500, lost: 2 });
    pending.resolve(taken);
    await eventually("there is room", () => both.status()[0]!.waiting === 0);
    both.tell([notice]);
    await eventually("both have it", () => delivered().every((count) => count === 502));
    both.tell([notice]);
    await both.stop();
    expect(delivered()).toEqual([502, 502]);
  });

  test("is told all that waits before the gateway ends", async () => {
    const one = sender();
    one.sender.tell(["a", "b", "c"].map((id) => ({ ...notice, id })));
    await one.sender.stop();
    expect(one.ports.requests.length).toBe(3);
    expect(one.sender.status()[0]).toMatchObject({ delivered: 3, lost: 0, waiting: 0 });
  });

  test("that loses several notices when the gateway ends is logged with each of their types once", async () => {
    const away = sender(() => ({ ...taken, status: null, reason: "connection refused" }), ["key.expiring", "cost.jump"]);
    away.sender.tell([notice, ...["a", "b"].map((id) => ({ ...notice, id, type: "cost.jump" as const })), { ...notice, id: "c" }]);
    await away.sender.stop();
    expect(away.lost).toEqual([
      "receiver.test key.expiring: connection refused",
      "receiver.test cost.jump: connection refused",
      "receiver.test cost.jump key.expiring: the gateway ended before they could be sent",
    ]);
  });

  test("that hangs when the gateway ends is logged with how many notices it cost, those on their way included", async () => {
    const ports = otlpPorts(undefined, { post: () => new Promise(() => {}) });
    const lost: unknown[] = [];
    const webhooks = [{ url: "https://receiver.test/hook", secret: "0123456789abcdef", types: noticeTypes }];
    const hanging = new WebhookSender(webhooks, { ...ports, onLoss: (...facts) => lost.push(facts) });
    hanging.tell([notice, { ...notice, id: "other" }, { ...notice, id: "jump", type: "cost.jump" }]);
    await ports.fire();
    void hanging.stop();
    hanging.abandon();
    hanging.abandon();
    const reason = "the gateway ended before they were delivered";
    expect(lost).toEqual([["receiver.test", reason, ["key.expiring", "cost.jump"], 3]]);
    expect(hanging.status()[0]).toMatchObject({ waiting: 0, delivered: 0, lost: 3 });
    hanging.tell([{ ...notice, id: "late" }]);
    expect(lost[1]).toEqual(["receiver.test", "the gateway ended before they could be sent", ["key.expiring"], 1]);
  });

  test("shows what became of its last requests, without the path of its address", async () => {
    const answers: PostOutcome[] = [{ ...taken, status: 503 }, taken];
    const one = sender(() => answers.shift() ?? taken);
    one.sender.tell([notice]);
    for (let round = 0; round < 3; round += 1) await one.ports.fire();
    const [status] = one.sender.status();
    expect(status).toMatchObject({ origin: "https://receiver.test", delivered: 1, lost: 0, waiting: 0 });
    expect(status?.deliveries.map(({ ok, type }) => [ok, type])).toEqual([
      [true, "key.expiring"],
      [false, "key.expiring"],
    ]);
    for (let count = 0; count < 30; count += 1) await one.sender.test(0);
    expect(one.sender.status()[0]?.deliveries.length).toBe(20);
    expect(JSON.stringify(one.sender.status())).not.toContain("/hook");
  });

  test("gets a signed test once, whatever it answers, and whichever events it wants", async () => {
    const refusing = sender(() => ({ ...taken, status: 500 }), []);
    expect(await refusing.sender.test(0)).toMatchObject({ type: "test", status: 500, ok: false });
    expect(refusing.ports.requests.map(({ body }) => (JSON.parse(body) as { readonly type: string }).type)).toEqual(["test"]);
    expect(refusing.ports.requests[0]?.headers["webhook-signature"]).toStartWith("v1,");
    expect(await refusing.sender.test(1)).toBeNull();
  });

  test("gets the signature of the standard's own example", () => {
    // https://github.com/standard-webhooks/standard-webhooks, libraries, the test of every language.
    const message = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", seconds: 1614265330, body: '{"test": 2432232314}' };
    expect(signatureHeaders(message, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")["webhook-signature"]).toBe(
      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    );
  });
});
