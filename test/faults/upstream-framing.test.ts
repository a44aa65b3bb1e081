// Needs: quiet. It mostly waits for upstreams that stall.
import { describe, expect } from "bun:test";
import { readChat } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { textOfOneAttempt } from "../support/invariants.ts";
import { expectInterrupted, expectRefusal, expectWhole } from "../support/outcome.ts";
import { kinds, Stage, variants } from "../support/stage.ts";

const stage = new Stage();

/** An answer that cannot be understood is the upstream's fault: somebody else is asked, or the client is told. */
function arePassedOver(
  promise: string,
  faults: Readonly<Record<string, string>>,
  codes: readonly string[] = ["upstream_invalid_response"],
): void {
  const each = Object.entries(faults).flatMap(([what, behaviour]) =>
    variants.map((variant) => ({ ...variant, label: `${what}, ${variant.label}`, behaviour })),
  );
  stage.rows(
    `${promise}, and reported as ${codes.join(" or ")} where nobody else is left`,
    each,
    async (row, { behaviour, stream, alone }) => {
      row.a.behaviour = behaviour;
      const reply = await row.ask({ stream, alone });
      if (!alone) {
        expectWhole(row, reply, row.b);
        return expect(row.path(reply)).toMatch(/^aa?b$/);
      }
      expect(codes).toContain(reply.error?.code ?? "none");
      expectRefusal(reply, 502, reply.error?.code ?? null);
      expect(reply.response.header("x-should-retry")).toBe("false");
      expect(row.path(reply)).toBe("aaa");
    },
  );
}

describe("content codings that nobody asked for", () => {
  for (const coding of ["gzip", "deflate", "br"]) {
    stage.rows(`F18: an answer in ${coding} is decoded, and its header is not passed on`, kinds, async (row, { stream }) => {
      row.a.behaviour = `fault:${coding}`;
      const reply = await row.ask({ stream });
      expectWhole(row, reply, row.a);
      expect(reply.response.header("content-encoding")).toBeNull();
      expect(row.path(reply)).toBe("a");
    });

    stage.row(`F18: a stream in ${coding} is decoded as it comes, not when it is complete`, async (row) => {
      row.a.behaviour = `fault:${coding}+hang-after@3`;
      const call = await row.open({ stream: true });
      await eventually("three tokens", () => readChat(call.response, null).content.includes(":2"));
      row.a.finishConnections();
      expectInterrupted(await call.reply, row.sent(await call.reply, row.a));
    });
  }

  arePassedOver("F18: answers that cannot be decoded, or decompress to too much, are passed over", {
    "six codings on top of one another": "fault:stacked-encoding@6",
    "two codings on top of one another": "fault:stacked-encoding@2",
    "a coding that nobody knows": "fault:unknown-encoding",
    "only claims to be compressed": "fault:false-gzip",
    "a little that becomes a lot": `fault:gzip-bomb@${8 * 1024 * 1024}`,
  });

  stage.row("F18: a whole answer larger than 16 MiB is not held, compressed or not", async (row) => {
    row.a.behaviour = `fault:big-event@${17 * 1024 * 1024}`;
    const reply = await row.ask();
    expectWhole(row, reply, row.b);
    expect(row.path(reply)).toBe("ab");
  });
});

describe("lengths and chunks that do not add up", () => {
  stage.rows(
    "F19: a body shorter than its length is not passed off as whole",
    variants.filter(({ stream }) => !stream),
    async (row, { alone }) => {
      row.a.behaviour = "fault:length-too-long";
      const reply = await row.ask({ alone });
      if (alone) expectRefusal(reply, 502, "upstream_disconnected");
      else expectWhole(row, reply, row.b);
      expect(row.path(reply)).toBe(alone ? "aaa" : "aab");
    },
  );

  // The end mark is the end: the client is done, whatever the transport says afterwards.
  stage.row(
    "F19: a stream that said its end is whole, though its length promised more",
    async (row) => {
      row.a.behaviour = "fault:length-too-long";
      const reply = await row.ask({ stream: true });
      expectWhole(row, reply, row.a);
      expect(row.path(reply)).toBe("a");
    },
    { oneAttemptSpeaks: false },
  );

  for (const { what, behaviour } of [
    { what: "another answer", behaviour: "fault:length-too-short" },
    { what: "garbage", behaviour: "fault:length-too-short@garbage" },
  ]) {
    stage.rows(`F20: ${what} behind an answer is never taken for the answer to the next request`, kinds, async (row, { stream }) => {
      row.a.behaviour = behaviour;
      for (let call = 0; call < 25; call += 1) {
        const reply = await row.ask({ stream });
        expectWhole(row, reply, row.a);
        expect(reply.response.text).not.toContain("poison");
      }
      // A connection with something left over in it is of no use to anyone.
      expect(row.a.ledger.connections.filter(({ requests }) => requests > 1)).toEqual([]);
    });
  }

  arePassedOver("F21: answers whose framing is broken or ambiguous are passed over", {
    "both a length and chunks": "fault:cl-and-te",
    "a chunk whose size is no number": "fault:bad-chunk-size",
    "a chunk whose size overflows": "fault:chunk-size-overflow",
    "ten megabytes of chunk extension": "fault:huge-chunk-extension",
  });

  stage.rows(
    "F21: a chunk that breaks after content is told in-band, after all that came before it",
    [
      { label: "no number", fault: "bad-chunk-size@3" },
      { label: "overflow", fault: "chunk-size-overflow@3" },
      { label: "no number, in one packet", fault: "one-packet+bad-chunk-size@3" },
    ],
    async (row, { fault }) => {
      row.a.behaviour = `fault:${fault}`;
      const reply = await row.ask({ stream: true });
      expectInterrupted(reply, row.sent(reply, row.a));
      expect(reply.content.split(" ").length).toBe(3);
    },
  );

  stage.row("F21: a hundred calls on a channel that breaks its framing now and then each get their own answer", async (row) => {
    const faults = ["cl-and-te", "bad-chunk-size", "length-too-short", "length-too-long", "garbage", "chunk-size-overflow"];
    const healthy = ["ok", "ok", "ok"];
    row.a.script(Array.from({ length: 20 }, (_, index) => [`fault:${faults[index % faults.length]}`, ...healthy]).flat());
    const ask = async (): Promise<void> => {
      for (let call = 0; call < 20; call += 1) {
        const reply = await row.ask();
        expectWhole(row, reply, row.path(reply).endsWith("a") ? row.a : row.b);
        expect(reply.response.text).not.toContain("poison");
      }
    };
    await Promise.all([ask(), ask(), ask(), ask(), ask()]);
    expect(row.a.ledger.chats.filter(({ behaviour }) => behaviour !== "ok").length).toBeGreaterThan(10);
  });
});

describe("no HTTP, or too much of it", () => {
  const notUnderstood = ["upstream_invalid_response", "upstream_disconnected"];
  arePassedOver(
    "F22: answers that are not HTTP are passed over",
    {
      garbage: "fault:garbage",
      "a body without a head": "fault:http09",
      "the preface of HTTP/2": "fault:h2-preface",
      "TLS on a plain connection": "fault:tls-bytes",
    },
    notUnderstood,
  );

  arePassedOver("F23: heads that are too large are passed over", {
    "a head of 64 KiB": "fault:huge-headers@65536",
    "a head without an end": "fault:huge-headers@endless",
    "a head of ten thousand lines": "fault:many-headers",
  });

  stage.rows("F23: a head of 16 KiB is borne, and not passed on", kinds, async (row, { stream }) => {
    row.a.behaviour = "fault:huge-headers@16384";
    const reply = await row.ask({ stream });
    expectWhole(row, reply, row.a);
    expect(row.path(reply)).toBe("a");
    expect(reply.response.header("x-padding")).toBeNull();
  });

  stage.rows(
    "F23: heads and lines without an end leave memory as it was",
    ["fault:huge-headers@endless", "fault:huge-chunk-extension"].map((behaviour) => ({ label: behaviour, behaviour })),
    async (row, { behaviour }) => {
      row.a.behaviour = behaviour;
      await row.ask();
      const before = row.gateway.rss() ?? 0;
      for (let call = 0; call < 4; call += 1) {
        const reply = await row.ask();
        expectWhole(row, reply, row.b);
        expect(row.path(reply)).toBe("ab");
      }
      expect((row.gateway.rss() ?? 0) - before).toBeLessThan(32 * 1024 * 1024);
    },
  );

  for (const interims of ["interim-100", "interim-102", "interim-103", "interim-100+interim-102+interim-103+interim-103"]) {
    stage.rows(
      `F32: ${interims.replaceAll("interim-", "").replaceAll("+", ", ")} before the answer is ignored`,
      kinds,
      async (row, { stream }) => {
        row.a.behaviour = `fault:${interims}`;
        const reply = await row.ask({ stream });
        expectWhole(row, reply, row.a);
        expect(reply.response.interims).toEqual([]);
        expect(row.path(reply)).toBe("a");
      },
    );
  }

  stage.rows(
    "F32: a change of protocol that nobody asked for is passed over, and not asked for again",
    variants,
    async (row, { stream, alone }) => {
      row.a.behaviour = "fault:unsolicited-101";
      const reply = await row.ask({ stream, alone });
      if (alone) expectRefusal(reply, 502, "upstream_misconfigured");
      else expectWhole(row, reply, row.b);
      expect(row.path(reply)).toBe(alone ? "a" : "ab");
    },
  );
});

describe("an answer to somebody else's question", () => {
  stage.row(
    "F54: an answer to another question would be seen here: a text that no attempt of the call sent breaks U2",
    async (row) => {
      const theirs = await row.ask();
      const ours = await row.ask({ body: { x_raw: theirs.response.text } });
      expect(ours.content).toBe(theirs.content);
      const baseline = { pid: row.gateway.pid, atMs: 0, fds: null, accessLines: 0, upstreams: new Map() };
      const scene = { gateway: row.gateway, upstreams: [row.a, row.b], baseline };
      await textOfOneAttempt({ ...scene, replies: [theirs] });
      await expect(textOfOneAttempt({ ...scene, replies: [ours] })).rejects.toThrow(/^U2: /);
    },
    { oneAttemptSpeaks: false },
  );
});
