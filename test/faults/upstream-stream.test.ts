// Needs: quiet. It mostly waits for streams that stall; the memory that it measures is that of its own gateway.
import { describe, expect } from "bun:test";
import fc from "fast-check";
import OpenAI from "openai";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { openChat, readChat, sseEvents, type ChatCall, type ChatReply } from "../support/client.ts";
import { collected, collects } from "../support/collected.ts";
import { eventually } from "../support/eventually.ts";
import { expectInterrupted, expectRefusal, expectWhole } from "../support/outcome.ts";
import { anyText, numRuns } from "../support/properties.ts";
import { clientKey, Stage, type Row } from "../support/stage.ts";
import { slowed } from "../support/slowed.ts";

const stage = new Stage({ env: collects });

const toolCall = {
  tools: [
    {
      type: "function",
      function: { name: "look", parameters: { type: "object", properties: { where: { type: "string" } }, required: ["where"] } },
    },
  ],
  x_tool: true,
};

const endings = [
  { id: "F13", what: "a stream that is reset", framing: "", cut: (row: Row) => row.a.resetConnections() },
  { id: "F14", what: "a chunked stream that is closed", framing: "", cut: (row: Row) => row.a.finishConnections() },
  { id: "F15", what: "a close-delimited stream that is cut", framing: "close-delimited+", cut: (row: Row) => row.a.finishConnections() },
] as const;

describe("a stream that is cut", () => {
  for (const { id, what, framing, cut } of endings) {
    stage.rows(
      `${id}: ${what} is told in-band after exactly what came, and never passed off as whole`,
      [1, 2, 50, "last"].map((after) => ({ label: `after ${after}`, after })),
      async (row, { after }) => {
        row.a.behaviour = `fault:tokens@60+${framing}hang-after@${after}`;
        const call = await row.open({ stream: true });
        const text = await untilTokens(call, after === "last" ? 60 : Number(after));
        await cut(row);
        const reply = await call.reply;
        expectInterrupted(reply, text);
        expect(text).toBe(row.sent(reply, row.a));
        expect(row.path(reply)).toBe("a");
        expect(await row.line(reply)).toMatchObject({ status: 200, state: "interrupted", error: "interrupted" });
      },
    );

    stage.rows(
      `${id}: ${what} before any content is begun anew elsewhere, and the client sees one beginning`,
      [
        { label: "with a fallback", alone: false },
        { label: "alone", alone: true },
      ],
      async (row, { alone }) => {
        row.a.behaviour = `fault:${framing}hang-after@0`;
        const call = await row.open({ stream: true, alone });
        // Every time it is asked, the roles are out before the connection goes.
        let cutBefore = 0;
        const over = call.reply.then(() => true);
        while (!(await Promise.race([over, bytesAfterCuts(row, cutBefore)]))) {
          cutBefore = row.a.ledger.chats.length;
          await cut(row);
        }
        const reply = await call.reply;
        if (alone) expectRefusal(reply, 502, framing === "" ? "upstream_disconnected" : "upstream_invalid_response");
        else expectWhole(row, reply, row.b);
      },
    );

    stage.row(`${id}: the official client raises an error for ${what}`, async (row) => {
      row.a.behaviour = `fault:tokens@60+${framing}hang-after@3`;
      const client = new OpenAI({ baseURL: `${row.gateway.url}/v1`, apiKey: clientKey, maxRetries: 0 });
      row.calls += 1;
      const stream = await client.chat.completions.create({ model: row.model, stream: true, messages: [{ role: "user", content: "?" }] });
      const heard: string[] = [];
      const listening = (async () => {
        for await (const chunk of stream) {
          heard.push(chunk.choices[0]?.delta.content ?? "");
          if (heard.filter(Boolean).length === 3) await cut(row);
        }
      })();
      const error = await listening.then(
        () => null,
        (raised: unknown) => raised,
      );
      expect(error).toBeInstanceOf(OpenAI.APIError);
      expect(error).toMatchObject({ code: "upstream_stream_interrupted", type: "upstream_error" });
      expect(heard.join("")).toBe(row.a.ledger.chats[0]?.tokensSent.join("") ?? "");
    });
  }

  stage.row("F14: a stream whose body ends well, but before its own end, is told in-band", async (row) => {
    row.a.behaviour = "fault:end-after@3";
    const reply = await row.ask({ stream: true });
    expectInterrupted(reply, row.sent(reply, row.a));
  });

  stage.rows(
    "F14: what arrives together with the cut is delivered before the cut is told",
    [
      { label: "chunked", behaviour: "fault:one-packet+fin-chunked-after@3" },
      { label: "close-delimited", behaviour: "fault:one-packet+fin-close-delimited-after@3" },
    ],
    async (row, { behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await row.ask({ stream: true });
      expectInterrupted(reply, row.sent(reply, row.a));
      expect(reply.content.split(" ").length).toBe(3);
    },
  );

  stage.row("F12: a stream that is reset after the roles alone is begun anew, and the client sees one role", async (row) => {
    row.a.behaviour = "fault:rst-before-content";
    const reply = await row.ask({ stream: true });
    expectWhole(row, reply, row.b);
    expect(row.path(reply)).toBe("aab");
  });

  for (const [what, behaviour] of [
    ["ends before it began", "fault:empty-stream"],
    ["ends after the roles", "fault:role-then-end"],
    ["is nothing but an end mark", "fault:done-only"],
  ] as const) {
    stage.rows(
      `F12: a stream that ${what} is no answer`,
      [
        { label: "with a fallback", alone: false },
        { label: "alone", alone: true },
      ],
      async (row, { alone }) => {
        row.a.behaviour = behaviour;
        const reply = await row.ask({ stream: true, alone });
        if (alone) expectRefusal(reply, 502, "upstream_invalid_response");
        else expectWhole(row, reply, row.b);
        expect(row.path(reply)).toBe(alone ? "aaa" : "ab");
      },
    );
  }
});

describe("a stream that ends in its own way", () => {
  stage.rows(
    "F16: a stream without an end mark, but finished, is whole and gets the mark once",
    [
      { label: "chunked", behaviour: "fault:no-done" },
      { label: "close-delimited", behaviour: "fault:close-delimited+no-done" },
    ],
    async (row, { behaviour }) => {
      row.a.behaviour = behaviour;
      const reply = await row.ask({ stream: true });
      expectWhole(row, reply, row.a);
      expect(await row.line(reply)).toMatchObject({ state: "complete", finish: "stop" });
    },
  );

  stage.row(
    "F16: a finished stream that never says its end mark is ended for the client all the same",
    async (row) => {
      row.a.behaviour = "fault:hang-after-finish";
      const reply = await row.ask({ stream: true });
      expectWhole(row, reply, row.a);
      expect(await row.line(reply)).toMatchObject({ state: "complete", finish: "stop", completion_tokens: 5 });
      expect(Number(reply.response.timing.endMs)).toBeLessThan(slowed(3_000));
    },
    { channel: { timeouts: { idle: "500ms" } } },
  );

  stage.row("F17: an end mark without a finish_reason is an end, and no finish_reason is invented", async (row) => {
    row.a.behaviour = "fault:done-without-finish";
    const reply = await row.ask({ stream: true });
    expect({ error: reply.error, done: reply.done, finish: reply.finishReason }).toEqual({ error: null, done: true, finish: null });
    expect(reply.content).toBe(row.sent(reply, row.a));
    expect(reply.response.text).not.toMatch(/"finish_reason":"/);
    expect(await row.line(reply)).toMatchObject({ state: "complete", missing_finish: true });
  });

  stage.rows(
    "F17: an end mark without a finish_reason is a cut after a tool call, and after reasoning alone",
    [
      { label: "in the middle of the arguments", behaviour: "fault:cut-with-done@3", body: toolCall },
      { label: "after all of the arguments", behaviour: "fault:done-without-finish", body: toolCall },
      { label: "after reasoning alone", behaviour: "fault:reasoning-only@2,done", body: {} },
    ],
    async (row, { behaviour, body }) => {
      row.a.behaviour = behaviour;
      const reply = await row.ask({ stream: true, body });
      expectInterrupted(reply, "");
      expect(await row.line(reply)).toMatchObject({ state: "interrupted", error: "interrupted" });
    },
  );

  stage.row(
    "F17: with two choices, the end mark is a cut where the tool call of one has no finish_reason",
    async (row) => {
      const call = { tool_calls: [{ index: 0, id: "x", type: "function", function: { name: "look", arguments: '{"where":"ov' } }] };
      const events = [chunkOf({ content: "one" }), chunkOf(call, null, 1), chunkOf({}, "stop"), "[DONE]"];
      const reply = await row.ask({ stream: true, body: { n: 2, x_raw: framed(events, plain) } });
      expect(reply.error?.code).toBe("upstream_stream_interrupted");
      expect(reply.events).not.toContain("[DONE]");
    },
    { oneAttemptSpeaks: false },
  );

  stage.row(
    "F17: with two choices, the end mark is a cut where the text of only one has a finish_reason",
    async (row) => {
      const events = [chunkOf({ content: "one" }), chunkOf({ content: "tw" }, null, 1), chunkOf({}, "stop"), "[DONE]"];
      const reply = await row.ask({ stream: true, body: { n: 2, x_raw: framed(events, plain) } });
      expect(reply.contents).toEqual(["one", "tw"]);
      expect(reply.error?.code).toBe("upstream_stream_interrupted");
      expect(reply.events).not.toContain("[DONE]");
    },
    { oneAttemptSpeaks: false },
  );

  stage.row(
    "F16: with two choices, one that is not finished makes the stream a broken one",
    async (row) => {
      const events = [chunkOf({ content: "one" }), chunkOf({ content: "two" }, null, 1), chunkOf({}, "stop")];
      const reply = await row.ask({ stream: true, body: { n: 2, x_raw: framed(events, plain) } });
      expect(reply.contents).toEqual(["one", "two"]);
      expect(reply.error?.code).toBe("upstream_stream_interrupted");
      expect(reply.events).not.toContain("[DONE]");
    },
    { oneAttemptSpeaks: false },
  );
});

describe("a stream that falls silent", () => {
  stage.row(
    "F25: an event that drips is delivered when it is whole, and not before",
    async (row) => {
      row.a.behaviour = "fault:slow-event@4,2";
      const call = await row.open({ stream: true });
      let ended = false;
      void call.ended.then(() => (ended = true));
      const halves: string[] = [];
      await eventually(
        "the end",
        () => {
          const { text } = call.response;
          if (text !== "" && !text.endsWith("\n\n")) halves.push(text);
          return ended;
        },
        10_000,
      );
      expect(halves).toEqual([]);
      expectWhole(row, await call.reply, row.a);
    },
    { channel: { timeouts: { idle: "2s" } } },
  );

  const silences = [
    {
      id: "F25",
      what: "drips one event for too long",
      behaviour: "fault:slow-event@40,2",
      timeouts: { progress: "700ms" },
      text: 2,
      ms: 700,
    },
    { id: "F27", what: "says nothing more after content", behaviour: "fault:hang-after@3", timeouts: { idle: "500ms" }, text: 3, ms: 500 },
    {
      id: "F28",
      what: "sends nothing but signs of life",
      behaviour: "fault:heartbeat-after@3,40",
      timeouts: { progress: "700ms" },
      text: 3,
      ms: 700,
    },
    {
      id: "F27",
      what: "goes on beyond all measure",
      behaviour: "fault:tokens@100000+pace@5",
      timeouts: { total: "800ms" },
      text: null,
      ms: 800,
    },
  ] as const;
  for (const { id, what, behaviour, timeouts, text, ms } of silences) {
    stage.row(
      `${id}: a stream that ${what} is ended in-band when its time is over`,
      async (row) => {
        row.a.behaviour = behaviour;
        const reply = await row.ask({ stream: true });
        const sent = row.a.ledger.ofCall(reply.call ?? "").at(-1)?.tokensSent ?? [];
        expectInterrupted(reply, text === null ? reply.content : sent.slice(0, text).join(""));
        const { endMs, bodyMs } = reply.response.timing;
        expect(Number(endMs)).toBeGreaterThanOrEqual(ms - 1);
        expect(Number(endMs) - Number(bodyMs)).toBeLessThan(slowed(ms + 1_500));
        expect(row.path(reply)).toBe("a");
      },
      { channel: { timeouts } },
    );
  }
});

describe("events of any size", () => {
  const mebibyte = 1024 * 1024;

  stage.row("F29: an event of 7 MiB is delivered, and takes no more memory than a few copies of it", async (row) => {
    const eventBytes = 7 * mebibyte;
    row.a.behaviour = `fault:big-event@${eventBytes}`;
    const before = await collected(row.gateway);
    const growths: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      const { rssBytes } = await collected(row.gateway);
      const reply = await row.ask({ stream: true });
      expectWhole(row, reply, row.a);
      expect(reply.content.length).toBeGreaterThan(eventBytes);
      growths.push((row.gateway.rss() ?? 0) - rssBytes);
    }
    const after = await collected(row.gateway);
    // What is garbage by then counts as well: as it was received, as a line, as text, as words, and as it is sent.
    expect(Math.min(...growths)).toBeLessThan(6.5 * eventBytes);
    expect(after.rssBytes - before.rssBytes).toBeLessThan(3 * eventBytes);
  });

  stage.rows(
    "F29: an event of 9 MiB is too much: before content another upstream answers",
    [
      { label: "with a fallback", alone: false },
      { label: "alone", alone: true },
    ],
    async (row, { alone }) => {
      row.a.behaviour = `fault:big-event@${9 * mebibyte}`;
      const reply = await row.ask({ stream: true, alone });
      if (alone) expectRefusal(reply, 502, "upstream_invalid_response");
      else expectWhole(row, reply, row.b);
      expect(row.path(reply)).toBe(alone ? "aaa" : "ab");
    },
  );

  stage.row("F29: a line without an end is told in-band after what came before it", async (row) => {
    row.a.behaviour = "fault:pace@40+endless-line@3";
    const reply = await row.ask({ stream: true });
    expectInterrupted(reply, row.sent(reply, row.a));
    const sent = row.a.ledger.ofCall(reply.call ?? "").at(-1)?.bytesSent ?? 0;
    // Cut at 8 MiB; the rest was under way.
    expect(sent).toBeLessThan(32 * mebibyte);
  });
});

describe("text and framing of any kind", () => {
  const manners = [
    "crlf",
    "cr",
    "bom",
    "no-space",
    "multi-line-data",
    "comments",
    "event-id-retry-fields",
    "no-final-blank-line",
    "crlf+bom+no-space+comments",
    "cr+event-id-retry-fields+multi-line-data",
  ];
  const texts = ["multi-byte", "u2028", "nul", "lone-surrogate", "invalid-utf8"];
  const packets = ["one-packet", "byte-by-byte"];

  for (const manner of [...manners, ...texts]) {
    stage.rows(
      `F30: ${manner} reaches the client as sound events, in one packet or byte by byte`,
      packets.map((packet) => ({ label: packet, packet })),
      async (row, { packet }) => {
        row.a.behaviour = `fault:${packet}+${manner}`;
        const reply = await row.ask({ stream: true });
        expectWhole(row, reply, row.a);
        expect(row.path(reply)).toBe("a");
        expectSoundEvents(reply);
      },
    );
  }

  stage.rows(
    "F30: an event that is no JSON is left out, and the rest is delivered",
    packets.map((packet) => ({ label: packet, packet })),
    async (row, { packet }) => {
      row.a.behaviour = `fault:${packet}+malformed-event@2`;
      const reply = await row.ask({ stream: true });
      expectWhole(row, reply, row.a);
      expectSoundEvents(reply);
      expect(await row.line(reply)).toMatchObject({ skipped_events: 1 });
    },
  );

  stage.row(
    "F30: whatever the text, the framing and the cuts, the client gets the same payloads",
    async (row) => {
      const property = fc.asyncProperty(scripts, async ({ pieces, framing, packet }) => {
        row.a.behaviour = `fault:${packet}`;
        const payloads = [...pieces.map((content) => chunkOf({ content })), chunkOf({}, "stop"), "[DONE]"];
        const reply = await row.ask({ stream: true, body: { x_raw: framed(payloads, framing) } });
        expect({ status: reply.status, error: reply.error }).toEqual({ status: 200, error: null });
        expect(reply.content).toBe(pieces.join(""));
        expect(reply.events.map(parsed)).toEqual(payloads.map(parsed));
        expectSoundEvents(reply);
      });
      await fc.assert(property, { numRuns: numRuns(30), endOnFailure: true });
    },
    { oneAttemptSpeaks: false },
  );

  stage.row(
    "F31: a thousand events in one packet and one event in a thousand packets are the same bytes to the client",
    async (row) => {
      const words = Array.from({ length: 1_000 }, (_, index) => `${index} `);
      const many = framed([...words.map((content) => chunkOf({ content })), chunkOf({}, "stop"), "[DONE]"], plain);
      const one = framed([chunkOf({ content: "é漢🚰".repeat(100) }), chunkOf({}, "stop"), "[DONE]"], plain);
      for (const [raw, packet] of [
        [many, "one-packet"],
        [one, "one-packet"],
        [one, "byte-by-byte"],
      ]) {
        row.a.behaviour = `fault:${packet}`;
        const reply = await row.ask({ stream: true, body: { x_raw: raw } });
        expect(reply.response.text).toBe(raw!);
      }
    },
    { oneAttemptSpeaks: false },
  );
});

describe("F31: however events and packets fall together, a client has them 5 ms after it would have had them without us:", () => {
  const payloads = (contents: readonly string[]) =>
    framed([...contents.map((content) => chunkOf({ content })), chunkOf({}, "stop"), "[DONE]"], plain);

  for (const [what, packet, raw] of [
    ["a thousand events in one packet", "one-packet", payloads(Array.from({ length: 1_000 }, (_, at) => `${at} `))],
    ["one event in a thousand packets", "byte-by-byte", payloads(["x".repeat(640)])],
  ] as const) {
    stage.row(
      what,
      async (row) => {
        row.a.behaviour = `fault:${packet}`;
        await using alone = await startChaos({ behaviour: `fault:${packet}` });
        const body = { x_raw: raw };
        const through: number[] = [];
        const straight: number[] = [];
        for (let time = 0; time < 40; time += 1) {
          through.push(await latencyMs(row.a, await row.open({ stream: true, body })));
          straight.push(await latencyMs(alone, await openChat(alone, body, { stream: true })));
        }
        // Half of them: the slowest are late for what else the machine does.
        expect(median(through) - median(straight)).toBeLessThan(slowed(5));
      },
      { oneAttemptSpeaks: false },
    );
  }
});

/** Waits until the client has so many tokens, and returns its text. */
async function untilTokens(call: ChatCall, count: number): Promise<string> {
  const soFar = (): ChatReply => readChat(call.response, null);
  await eventually(`${count} tokens`, () => call.response.status !== 0 && soFar().content.split(" ").filter(Boolean).length === count);
  return soFar().content;
}

/** False when an attempt newer than those has begun to speak. */
async function bytesAfterCuts(row: Row, attempts: number): Promise<false> {
  await row.a.waitFor(({ chats }) => chats.length > attempts && (chats.at(-1)?.bytesSent ?? 0) > 0, 10_000);
  return false;
}

/** Only data, each event whole and JSON, in well-formed UTF-8: what every client can read. */
function expectSoundEvents(reply: ChatReply): void {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(reply.response.body);
  const { others, trailing, data } = sseEvents(text);
  expect({ others, trailing }).toEqual({ others: [], trailing: "" });
  expect(text.startsWith("data: ")).toBe(true);
  for (const payload of data.slice(0, -1)) expect(JSON.parse(payload)).toBeObject();
}

interface Framing {
  readonly endOfLine: string;
  readonly prefix: string;
  readonly mark: boolean;
  readonly between: readonly string[];
  readonly splits: boolean;
}

const plain: Framing = { endOfLine: "\n", prefix: "data: ", mark: false, between: [], splits: false };

const framings: fc.Arbitrary<Framing> = fc.record({
  endOfLine: fc.constantFrom("\n", "\r\n", "\r"),
  prefix: fc.constantFrom("data: ", "data:"),
  mark: fc.boolean(),
  between: fc.subarray([": a comment", "", "event: message", "id: 7", "retry: 10"]),
  splits: fc.boolean(),
});

const scripts = fc.record({
  pieces: fc.array(anyText({ minLength: 1, maxLength: 40 }), { minLength: 1, maxLength: 5 }),
  framing: framings,
  packet: fc.constantFrom("one-packet", "byte-by-byte"),
});

function framed(payloads: readonly string[], { endOfLine, prefix, mark, between, splits }: Framing): string {
  const events = payloads.map((payload) => {
    const lines = splits && payload.startsWith("{") ? ["{", payload.slice(1)] : [payload];
    return [...between, ...lines.map((line) => prefix + line), "", ""].join(endOfLine);
  });
  return (mark ? "\uFEFF" : "") + events.join("");
}

function chunkOf(delta: object, finish: string | null = null, index = 0): string {
  return JSON.stringify({
    id: "x",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index, delta, finish_reason: finish }],
  });
}

function parsed(payload: string): unknown {
  return payload === "[DONE]" ? payload : (JSON.parse(payload) as unknown);
}

/** From the last byte that the upstream sent to the end of the answer at its client. */
async function latencyMs({ ledger }: Chaos, call: ChatCall): Promise<number> {
  await call.ended;
  const endedAt = performance.now();
  return endedAt - ledger.ofCall(call.call ?? "")[0]!.lastSentAt!;
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[values.length >> 1]!;
}
