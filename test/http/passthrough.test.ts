// Needs: quiet. It mostly waits for its own calls, which are many and small.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { ChatReply } from "../support/client.ts";
import { setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

let rig: Rig<"a" | "pool">;

beforeAll(async () => {
  rig = await setUp({
    a: { models: { plain: "plain", fast: "upstream/model:1", dripped: "fault:byte-by-byte" } },
    pool: { models: { pooled: "pooled" }, pooled: true, max_tokens_ceiling: 1000 },
  });
});

afterAll(async () => {
  // What was said word for word, on a test's own wish, is not in the ledger of tagged words.
  await rig.check({ oneAttemptSpeaks: false });
  await rig[Symbol.asyncDispose]();
});

/** One piece of a request: as the client writes it, and as the upstream must read it. */
interface Piece {
  readonly text: string;
  readonly becomes: string;
}

function same(text: string): Piece {
  return { text, becomes: text };
}

function joined(pieces: readonly Piece[], side: keyof Piece): string {
  return pieces.map((piece) => piece[side]).join("");
}

const space = fc.constantFrom("", "", "", " ", "\n", "\t", "\r\n", "  \n ");

const numbers = fc.constantFrom(
  "9007199254740993",
  "-9223372036854775808",
  "1.0",
  "1e400",
  "-0",
  "-0.0",
  "1E+2",
  "0.1000000000000000055511151231257827",
  "123456789012345678901234567890",
);

/** Strings as they may stand in a document: raw, escaped in every way, and with escapes that are no character. */
const strings = fc
  .array(
    fc.oneof(
      fc.string({ unit: "grapheme", maxLength: 8 }).map((text) => JSON.stringify(text).slice(1, -1)),
      fc.constantFrom("\\u0041", "\\/", "\\u2028", "\u2028", "\\ud800", "\\udfff\\ud800", "\\u0000", "\\n", "👩‍🔧", "é", "\u007f"),
    ),
    { maxLength: 5 },
  )
  .map((parts) => `"${parts.join("")}"`);

const { json } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom("null", "true", "false"),
    numbers,
    strings,
    fc.tuple(space, fc.array(tie("json"), { maxLength: 4 })).map(([gap, items]) => `[${gap}${items.join(`,${gap}`)}${gap}]`),
    fc
      .tuple(space, fc.array(fc.tuple(strings, tie("json")), { maxLength: 4 }))
      .map(([gap, members]) => `{${gap}${members.map(([key, value]) => `${key}${gap}:${gap}${value}`).join(`,${gap}`)}${gap}}`),
  ),
}));

/** Fields nobody has heard of, some of them twice, and one that would be a trap for a careless parser. */
const strangers = fc.array(
  fc
    .tuple(fc.constantFrom('"seed"', '"x_unknown"', '"top_k"', '"__proto__"', '"constructor"', '"metadata"', '"m\\u00f6del"', '""'), json)
    .map(([key, value]) => same(`${key}:${value}`)),
  { maxLength: 6 },
);

const messages = json.map((value) => same(`"messages":[{"role":"user","content":[{"type":"text","text":${value}},${value}]}]`));

/** A body of members in any order, with white space anywhere it may stand. */
function bodyOf(members: readonly (readonly Piece[])[], gap: string, ranks: readonly number[]): readonly Piece[] {
  const sorted = members.map((member, at) => ({ member, rank: ranks[at] ?? 0 })).toSorted((one, other) => one.rank - other.rank);
  const inside = sorted.flatMap(({ member }, at) => [...(at === 0 ? [] : [same(`${gap},`)]), same(gap), ...member]);
  return [same(`${gap}{`), ...inside, same(`${gap}}${gap}`)];
}

type Members = readonly (readonly Piece[])[];

const named: readonly (readonly Piece[])[] = [
  [same('"model":"plain"')],
  [same('"mod\\u0065l" : "pl\\u0061in"')],
  [same('"model":'), { text: '"fast"', becomes: '"upstream/model:1"' }],
  [same('"\\u006dodel" :\n'), { text: '"f\\u0061st"', becomes: '"upstream/model:1"' }],
];
const pooled: readonly (readonly Piece[])[] = [[same('"model":"pooled"')], [same('"mod\\u0065l"\n:"p\\u006foled"')]];

/** Requests with these members and any others, in any order. */
function requests(own: fc.Arbitrary<Members>, models = named): fc.Arbitrary<readonly Piece[]> {
  const ranks = fc.array(fc.nat(1000), { minLength: 16, maxLength: 16 });
  return fc
    .record({ model: fc.constantFrom(...models), said: messages, strangers, own, gap: space, ranks })
    .map((one) => bodyOf([one.model, [one.said], ...one.strangers.map((member) => [member]), ...one.own], one.gap, one.ranks));
}

async function send(pieces: readonly Piece[]): Promise<{ readonly reply: ChatReply; readonly arrived: string }> {
  const reply = await rig.chat(joined(pieces, "text"));
  const channel = reply.channel === "pool" ? "pool" : "a";
  const attempt = rig.upstream[channel].ledger.chats.at(-1);
  return { reply, arrived: Buffer.from(attempt?.body ?? []).toString() };
}

describe("a request", () => {
  test("arrives byte for byte, except the model where it is an alias", async () => {
    await fc.assert(
      fc.asyncProperty(requests(fc.constant([])), async (pieces) => {
        const { reply, arrived } = await send(pieces);
        expect(reply.status).toBe(200);
        expect(arrived).toBe(joined(pieces, "becomes"));
      }),
      { numRuns: 150 },
    );
  });

  const inserted = '"stream_options":{"include_usage":true},';

  test("to be streamed differs by our own wish for usage, and by nothing else", async () => {
    const streaming = fc.constantFrom<Members[]>(
      [[same('"stream":true')], [same('"stream_options":{"include_usage":true}')]],
      [[same('"stream":true')], [same('"stream_options":'), { text: "null", becomes: '{"include_usage":true}' }]],
      [[same('"stream":true')], [same('"stream_options" : {'), { text: "", becomes: '"include_usage":true' }, same(" }")]],
      [
        [same('"stream":true')],
        [same('"stream_options":{ "include_usage" : '), { text: "false", becomes: "true" }, same(',"include_obfuscation":1.0}')],
      ],
      [
        [same('"stream":true')],
        [same('"stream_options":{'), { text: "", becomes: '"include_usage":true,' }, same(' "include_obfuscation":false}')],
      ],
    );
    await fc.assert(
      fc.asyncProperty(requests(streaming), async (pieces) => {
        const { reply, arrived } = await send(pieces);
        expect([reply.status, reply.done]).toEqual([200, true]);
        expect(arrived).toBe(joined(pieces, "becomes"));
      }),
      { numRuns: 60 },
    );
    await fc.assert(
      fc.asyncProperty(requests(fc.constant([[same('"stream" :true')]])), async (pieces) => {
        const { reply, arrived } = await send(pieces);
        expect([reply.status, reply.done]).toEqual([200, true]);
        expect(arrived).toContain(inserted);
        expect(arrived.replace(inserted, "")).toBe(joined(pieces, "becomes"));
      }),
      { numRuns: 60 },
    );
  });

  test("to a pooled channel differs by the lowered tokens, and by nothing else", async () => {
    const ceilings = fc.constantFrom<Members[]>(
      [[same('"max_tokens":'), { text: "1000000", becomes: "1000" }]],
      [[same('"max_completion_tokens" : '), { text: "1e9", becomes: "1000" }], [same('"max_tokens":1000')]],
      [
        [same('"max_tokens":'), { text: "1001", becomes: "1000" }],
        [same('"max_tokens":'), { text: "9007199254740993", becomes: "1000" }],
      ],
      [[same('"max_tokens":1e2')], [same('"max_completion_tokens":null')]],
    );
    await fc.assert(
      fc.asyncProperty(requests(ceilings, pooled), async (pieces) => {
        const { reply, arrived } = await send(pieces);
        expect([reply.status, reply.channel]).toEqual([200, "pool"]);
        expect(arrived).toBe(joined(pieces, "becomes"));
      }),
      { numRuns: 60 },
    );
  });

  test("that names its model twice is sent on with the one that counted", async () => {
    const messagesText = '"messages":[{"role":"user","content":"hi"}]';
    const { reply, arrived } = await send([same(`{"model":"forbidden",${messagesText},"model":"fast"}`)]);
    expect(reply.status).toBe(200);
    expect(arrived).toBe(`{"model":"upstream/model:1",${messagesText},"model":"upstream/model:1"}`);
  });

  test.each([
    ["plain", false],
    ["fast", true],
  ])("with images of megabytes arrives whole (%s)", async (model, streamed) => {
    const image = Buffer.alloc(3 * 1024 * 1024, 0xa7).toString("base64");
    const part = `{"type":"image_url","image_url":{"url":"data:image/png;base64,${image}","detail":"high"}}`;
    const becomes = model === "fast" ? '"upstream/model:1"' : '"plain"';
    const pieces = [
      same('{"model":'),
      { text: `"${model}"`, becomes },
      same(`,"messages":[{"role":"user","content":[${part},${part}]}],"stream_options":{"include_usage":true},"stream":${streamed}}`),
    ];
    const { reply, arrived } = await send(pieces);
    expect(reply.status).toBe(200);
    expect(arrived === joined(pieces, "becomes")).toBe(true);
  });
});

describe("an answer", () => {
  function asking(model: string, raw: string, more: Record<string, unknown>): string {
    return JSON.stringify({ model, messages: [{ role: "user", content: "hi" }], x_raw: raw, ...more });
  }

  const extras = fc.array(fc.tuple(fc.constantFrom('"id"', '"vendor"', '"__proto__"', '"system_fingerprint"'), json), { maxLength: 4 });

  test("that is whole arrives byte for byte", async () => {
    const answers = fc
      .record({ extras, said: json, gap: space, lead: fc.constantFrom("", "\n   ", "          ") })
      .map(({ extras: members, said, gap, lead }) => {
        const choice = `{"index":0,"message":{"role":"assistant","content":${said}},"finish_reason":"stop"}`;
        return `${lead}{${gap}"choices"${gap}:[${choice}]${members.map(([key, value]) => `${gap},${key}:${value}`).join("")}${gap}}${gap}`;
      });
    await fc.assert(
      fc.asyncProperty(answers, async (raw) => {
        const { response } = await rig.chat(asking("plain", raw, {}));
        expect(response.status).toBe(200);
        expect(response.text).toBe(raw);
      }),
      { numRuns: 120 },
    );
  });

  const chunks = fc.array(fc.record({ extras, said: strings }), { minLength: 1, maxLength: 6 }).map((pieces) =>
    pieces.map(({ extras: members, said }) => {
      const more = members.map(([key, value]) => `,${key}:${value.replaceAll(/[\r\n]/g, " ")}`).join("");
      return `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":${said}},"finish_reason":null}]${more}}\n\n`;
    }),
  );
  const finish = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"seed":9007199254740993}\n\n';
  const usage = 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"x_cost":1.0}}\n\n';
  const done = "data: [DONE]\n\n";

  test.each([
    ["plain", 100],
    ["dripped", 8],
  ])("that is streamed arrives byte for byte, however it was cut (%s)", async (model, numRuns) => {
    await fc.assert(
      fc.asyncProperty(chunks, async (events) => {
        const raw = [...events, finish, usage, done].join("");
        const { response } = await rig.chat(asking(model, raw, { stream: true, stream_options: { include_usage: true } }));
        expect(response.text).toBe(raw);
        expect(response.endedCleanly).toBe(true);
      }),
      { numRuns },
    );
  });

  test("that is streamed hides the usage nobody asked for, and only that", async () => {
    await fc.assert(
      fc.asyncProperty(chunks, async (events) => {
        const raw = [...events, finish, usage, done].join("");
        const { response } = await rig.chat(asking("plain", raw, { stream: true }));
        expect(response.text).toBe([...events, finish, done].join(""));
      }),
      { numRuns: 40 },
    );
  });

  test("shows usage that came on the finish chunk of its own accord", async () => {
    const own = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n';
    const raw = `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n${own}${done}`;
    const reply = await rig.chat(asking("plain", raw, { stream: true }));
    expect(reply.response.text).toBe(raw);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ prompt_tokens: 7, completion_tokens: 2 });
  });

  test("is metered in the access line whether or not its client asked", async () => {
    const silent = await rig.chat({ model: "plain" }, { stream: true });
    const curious = await rig.chat({ model: "plain", stream_options: { include_usage: true } }, { stream: true });
    expect([silent.usage, curious.usage]).toMatchObject([null, { completion_tokens: 5 }]);
    for (const { requestId } of [silent, curious]) {
      expect(await rig.accessLine(requestId)).toMatchObject({ completion_tokens: 5, finish: "stop" });
    }
  });
});
