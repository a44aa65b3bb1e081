// Needs: quiet. It mostly waits for limits of seconds to be over.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { startChaos, type Chaos } from "../support/chaos.ts";
import type { ChatReply } from "../support/client.ts";
import { expectRefusal, expectWhole } from "../support/outcome.ts";
import { kinds, type Row, Stage, variants } from "../support/stage.ts";
import { slowed } from "../support/slowed.ts";

/** What a call may take in all, so that nobody waits for a limit longer than that. */
const deadlineMs = 4_000;
const stage = new Stage({ config: { routing: { deadlines: { stream: `${deadlineMs}ms`, whole: `${deadlineMs}ms` } } } });

/** The first line that says the gateway stays away from the first channel. */
async function coolingOf(row: Row): Promise<Readonly<Record<string, unknown>>> {
  return row.gateway.waitForLog((line) => row.coolings().includes(line));
}

describe("redirects", () => {
  let elsewhere: Chaos;
  beforeAll(async () => {
    elsewhere = await startChaos();
  });
  afterAll(() => elsewhere.close());

  const targets = [
    { what: "another host", location: () => `${elsewhere.url}/chat/completions` },
    { what: "an address of the machine's own cloud", location: () => "http://169.254.169.254/latest/meta-data/" },
    { what: "itself", location: (row: Row) => `${row.a.url}/chat/completions` },
    { what: "a path", location: () => "/v1/chat/completions" },
    { what: "nowhere", location: () => "" },
  ];
  for (const { what, location } of targets) {
    stage.rows(
      `F33: a redirect to ${what} is never followed, and our key is shown to nobody else`,
      [301, 302, 303, 307, 308].flatMap((status) =>
        variants.map((variant) => ({ ...variant, label: `${status}, ${variant.label}`, status })),
      ),
      async (row, { status, stream, alone }) => {
        row.a.behaviour = `fault:redirect@${status},${location(row)}`;
        const reply = await row.ask({ stream, alone });
        if (alone) expectRefusal(reply, 502, "upstream_redirect");
        else expectWhole(row, reply, row.b);
        expect(row.path(reply)).toBe(alone ? "a" : "ab");
        expect(row.a.ledger.attempts.length).toBe(1);
        expect(elsewhere.ledger.connectionsAccepted).toBe(0);
        const cooling = await coolingOf(row);
        expect(cooling["error"]).toBe("redirected");
        expect(String(cooling["scope"])).toStartWith("host ");
      },
      { sharesFallback: true },
    );
  }
});

describe("limits", () => {
  const second = 1_000;
  const hour = 3_600 * second;
  const httpDate = (atMs: number) => new Date(atMs).toUTCString();
  interface Limit {
    readonly label: string;
    readonly behaviour: () => string;
    /** How long the gateway stays away. */
    readonly coolMs: number;
    /** A date has no fractions of a second. */
    readonly toleranceMs?: number;
    readonly asked?: number;
  }
  const without = 10 * second;
  const limits: readonly Limit[] = [
    { label: "no word on when", behaviour: () => "fault:rate-limit", coolMs: without },
    { label: "0", behaviour: () => "fault:rate-limit@retry-after=0", coolMs: second },
    { label: "5", behaviour: () => "fault:rate-limit@retry-after=5", coolMs: 5 * second, asked: 5 * second },
    { label: "5.5", behaviour: () => "fault:rate-limit@retry-after=5.5", coolMs: 5.5 * second, asked: 5.5 * second },
    { label: "58", behaviour: () => "fault:rate-limit@retry-after=58", coolMs: 58 * second, asked: 58 * second },
    { label: "60", behaviour: () => "fault:rate-limit@retry-after=60", coolMs: 60 * second, asked: 60 * second },
    { label: "-1", behaviour: () => "fault:rate-limit@retry-after=-1", coolMs: without },
    { label: "1e9", behaviour: () => "fault:rate-limit@retry-after=1e9", coolMs: hour, asked: hour },
    { label: "garbage", behaviour: () => "fault:rate-limit@retry-after=soon", coolMs: without },
    { label: "a date in the past", behaviour: () => `fault:rate-limit@retry-after=${httpDate(Date.now() - hour)}`, coolMs: without },
    {
      label: "a date in the future",
      behaviour: () => `fault:rate-limit@retry-after=${httpDate(Date.now() + 30 * second)}`,
      coolMs: 30 * second,
      toleranceMs: 2_500,
      asked: 30 * second,
    },
    ...[-hour, hour].map((skewMs) => ({
      label: `a date by a clock that is ${skewMs < 0 ? "slow" : "fast"} by an hour`,
      behaviour: () => `fault:rate-limit@date=${httpDate(Date.now() + skewMs)};retry-after=${httpDate(Date.now() + skewMs + 7 * second)}`,
      coolMs: 7 * second,
      toleranceMs: 1_100,
      asked: 7 * second,
    })),
    { label: "200 milliseconds", behaviour: () => "fault:retry-after-ms@200", coolMs: second },
    { label: "2500 milliseconds", behaviour: () => "fault:retry-after-ms@2500", coolMs: 2.5 * second, asked: 2.5 * second },
    {
      label: "the reset of a limit that is used up",
      behaviour: () => "fault:rate-limit@x-ratelimit-remaining-requests=0;x-ratelimit-reset-requests=6m0s",
      coolMs: 360 * second,
      asked: 360 * second,
    },
  ];

  const groups = limits.map(({ label, ...limit }) => ({ label, ...limit }));
  stage.rows(
    "F42: a limit sends the call elsewhere at once, and keeps the channel out of use for as long as the upstream asked",
    groups,
    async (row, { behaviour, coolMs, toleranceMs = 100 }) => {
      row.a.behaviour = behaviour();
      const reply = await row.ask();
      expectWhole(row, reply, row.b);
      expect(row.path(reply)).toBe("ab");
      const cooling = await coolingOf(row);
      expect(cooling["error"]).toBe("rate_limited");
      expect(Math.abs(Number(cooling["for_ms"]) - coolMs)).toBeLessThan(slowed(toleranceMs));
      if (coolMs > second) expect(row.path(await row.ask())).toBe("b");
    },
    // Equals, so that nobody waits for the better tier to be free again.
    { equals: true, channel: { weight: 1_000_000 }, sharesFallback: true },
  );

  stage.rows(
    "F42: a limit of the only upstream is told with a wait that clients understand, before the call's own time is over",
    groups,
    async (row, { behaviour, asked = 0 }) => {
      row.a.behaviour = behaviour();
      const reply = await row.ask({ alone: true });
      expectRefusal(reply, 429, "rate_limit_exceeded");
      const { endMs } = reply.response.timing;
      expect(Number(endMs)).toBeLessThan(slowed(deadlineMs + 1_500));
      const seconds = reply.response.header("retry-after") ?? "";
      const ms = reply.response.header("retry-after-ms") ?? "";
      expect(seconds).toMatch(/^\d+$/);
      expect(Number(seconds)).toBeWithin(1, 61);
      expect(Number(ms)).toBeWithin(1_000, 60_001);
      expect(Number(seconds)).toBe(Math.ceil(Number(ms) / 1000));
      // No sooner than the upstream asked; a date may lose most of a second on the way.
      expect(Number(ms)).toBeGreaterThanOrEqual(Math.min(asked, 60 * second) - 2_000);
      expect(reply.response.header("x-should-retry")).toBe(asked > 60 * second ? "false" : null);
    },
    { size: 1 },
  );

  stage.row("F42: a limit that passes within a second is waited out before a lesser tier is asked", async (row) => {
    row.a.script(["fault:rate-limit@retry-after=1"]);
    const reply = await row.ask();
    expectWhole(row, reply, row.a);
    expect(row.path(reply)).toBe("aa");
    expect(Number(reply.response.timing.endMs)).toBeGreaterThanOrEqual(second);
  });

  stage.rows("F42: an empty account is no limit that passes: its key is put aside", variants, async (row, { stream, alone }) => {
    row.a.behaviour = "fault:insufficient-quota";
    const reply = await row.ask({ stream, alone });
    if (alone) expectRefusal(reply, 502, "upstream_auth_failed");
    else expectWhole(row, reply, row.b);
    expect(row.path(reply)).toBe(alone ? "a" : "ab");
    const cooling = await coolingOf(row);
    expect(cooling["error"]).toBe("quota_exhausted");
    expect(String(cooling["scope"])).toStartWith("credential ");
    expect(Number(cooling["for_ms"])).toBeGreaterThan(59_000);
  });
});

describe("every status", () => {
  /** What a status means: whom a call asks in turn, and what its client sees when there is nobody but the first. */
  interface Meaning {
    readonly path: string;
    readonly pathAlone: string;
    readonly status: number;
    readonly code: string | null;
  }
  const elsewhere = { path: "ab", pathAlone: "a", status: 502 };
  const again = { path: "aab", pathAlone: "aaa" };
  const ofClient = { path: "a", pathAlone: "a" };

  function meaning(status: number, body: Body): Meaning {
    if (status === 404 && body === "json") return { ...elsewhere, code: "upstream_model_missing" };
    if ([404, 405, 406, 407, 410, 415, 421, 426].includes(status)) return { ...elsewhere, code: "upstream_misconfigured" };
    if ([401, 402, 403].includes(status)) return { ...elsewhere, code: "upstream_auth_failed" };
    if ([408, 424, 425].includes(status)) return { ...again, status: 502, code: "upstream_error" };
    if (status === 413) return { path: "ab", pathAlone: "a", status, code: "request_too_large" };
    if (status === 429) return { path: "ab", pathAlone: "aaa", status, code: "rate_limit_exceeded" };
    if (status === 451) return { ...ofClient, status: 400, code: "content_policy_violation" };
    if (status < 500) return { ...ofClient, status, code: null };
    if (status === 501) return { ...elsewhere, code: "upstream_model_missing" };
    if (status === 504 || status === 524) return { ...elsewhere, status: 504, code: "upstream_timeout" };
    if (status === 503 || status === 529) return { ...again, status: 503, code: "upstream_unavailable" };
    if (status < 600) return { ...again, status: 502, code: "upstream_error" };
    return { path: "ab", pathAlone: "aaa", status: 502, code: "upstream_invalid_response" };
  }

  type Body = "json" | "empty";
  const faults: Readonly<Record<Body, string>> = { json: "status", empty: "status-empty" };
  const statuses = [...range(400, 451), ...range(500, 511), ...range(520, 530), 599, 999];
  const cases = statuses.flatMap((status) =>
    (["json", "empty"] as const).map((body) => ({ status, body, expected: meaning(status, body) })),
  );
  const calls = cases.flatMap((one) => [
    { ...one, alone: false, group: stage.group({ sharesFallback: true }) },
    { ...one, alone: true, group: stage.group({ size: 1 }) },
  ]);
  const outcomes = new Map<string, { readonly row: Row; readonly reply: ChatReply }>();
  const nameOf = (status: number, body: Body, alone: boolean) => `${status} ${body} ${alone}`;

  beforeAll(async () => {
    const places = semaphore(24);
    await stage.playAll(
      calls.map(({ group }) => group),
      async (row, index) => {
        const { status, body, alone } = calls[index]!;
        row.a.behaviour = `fault:${faults[body]}@${status}`;
        const reply = await places(() => row.ask({ alone, stream: status % 2 === 1 }));
        outcomes.set(nameOf(status, body, alone), { row, reply });
      },
    );
  }, 60_000);

  for (const { status, body, expected } of cases) {
    const attempts = expected.pathAlone.length;
    const promise = `is tried ${attempts === 1 ? "once" : `${attempts} times`} and told as ${expected.status} ${expected.code ?? "without a code"}`;
    test(`F43: ${status} (${body === "json" ? "JSON" : "without a body"}) ${promise}, ${expected.path === "a" ? "whoever else is there" : "where nobody else is left"}`, () => {
      const pair = outcomes.get(nameOf(status, body, false))!;
      const alone = outcomes.get(nameOf(status, body, true))!;
      expect(pair.row.path(pair.reply)).toBe(expected.path);
      if (expected.path === "a") expectRefusal(pair.reply, expected.status, expected.code);
      else expectWhole(pair.row, pair.reply, pair.row.b);

      expect(alone.row.path(alone.reply)).toBe(expected.pathAlone);
      expectRefusal(alone.reply, expected.status, expected.code);
      expect(alone.reply.response.header("x-should-retry")).toBe(expected.status === 429 ? null : "false");
    });
  }
});

stage.rows(
  "F43: a server that says in a page that plain HTTP came where it expects TLS is the channel's fault, and no client is told that it did wrong",
  [...kinds],
  async (row, { stream }) => {
    row.a.behaviour = "fault:misdirected";
    const reply = await row.ask({ stream });
    expectWhole(row, reply, row.b);
    expect(row.path(reply)).toBe("ab");
    expect(await coolingOf(row)).toMatchObject({ error: "misconfigured" });
  },
);

describe("our own credentials", () => {
  for (const status of [401, 402, 403]) {
    stage.rows(
      `F44: ${status} puts the key aside at once and says so once, and the client never sees it`,
      kinds,
      async (row, { stream }) => {
        row.a.behaviour = `fault:status@${status}`;
        for (const path of ["ab", "b", "b"]) {
          const reply = await row.ask({ stream });
          expectWhole(row, reply, row.b);
          expect(row.path(reply)).toBe(path);
        }
        const cooling = await coolingOf(row);
        expect(String(cooling["scope"])).toStartWith("credential ");
        expect(cooling["level"]).toBe("warn");
        expect(Number(cooling["for_ms"])).toBeGreaterThan(59_000);
        expect(row.coolings().length).toBe(1);
      },
    );

    stage.rows(
      `F44: a key that the upstream repeats in a ${status} reaches neither client nor log`,
      variants,
      async (row, { stream, alone }) => {
        row.a.behaviour = `fault:leak-key@${status}`;
        const reply = await row.ask({ stream, alone });
        if (alone) expectRefusal(reply, 502, "upstream_auth_failed");
        else expectWhole(row, reply, row.b);
        // That they are not in there is checked after every row; that there was something to find is checked here.
        expect((await row.line(reply))["tries"]).toBeArray();
        expect(JSON.stringify(await row.line(reply))).toContain("[redacted]");
      },
    );
  }

  stage.rows(
    "F44: a wrong key that is reported as a mistake of the client's is not the client's mistake",
    variants,
    async (row, { stream, alone }) => {
      row.a.behaviour = "fault:bad-key-400";
      const reply = await row.ask({ stream, alone });
      if (alone) expectRefusal(reply, 502, "upstream_auth_failed");
      else expectWhole(row, reply, row.b);
      expect(row.path(reply)).toBe(alone ? "a" : "ab");
    },
  );
});

function range(first: number, last: number): readonly number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** Lets so many in at the same time. */
function semaphore(places: number): <T>(task: () => Promise<T>) => Promise<T> {
  let free = places;
  const waiting: (() => void)[] = [];
  return async (task) => {
    while (free === 0) await new Promise<void>((resolve) => waiting.push(resolve));
    free -= 1;
    try {
      return await task();
    } finally {
      free += 1;
      waiting.shift()?.();
    }
  };
}
