// Needs: quiet. It mostly waits for windows of limits to pass.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import OpenAI, { RateLimitError } from "openai";
import { rawRequest, type RawResponse } from "../support/client.ts";
import type { ChatReply } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { openKeys, type Keys } from "../support/keys.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

let rig: Rig<"a">;
let keys: Keys;

beforeAll(async () => {
  rig = await setUp(
    // What is usual of a model is learned from its answers, so tests about reservations have a model of their own.
    { a: { models: ["plain", "gpt-mini", "gpt-large", "short", "long", "streamed", "huge", "alone"] } },
    {
      keys: [
        { name: "tester", key: clientKey },
        { name: "file", key: fileKey, limits: { rpm: 1 } },
      ],
    },
  );
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

const fileKey = "sk-file-canary-0123456789abcdef";

function chat(token: string, body: Record<string, unknown> = {}): Promise<ChatReply> {
  return rig.chat({ model: "plain", ...body }, { key: token });
}

function limitHeaders({ response }: { readonly response: RawResponse }, what: "requests" | "tokens"): readonly (string | null)[] {
  return ["limit", "remaining", "reset"].map((name) => response.header(`x-ratelimit-${name}-${what}`));
}

function remaining({ response }: { readonly response: RawResponse }, what: "requests" | "tokens"): number {
  return Number(response.header(`x-ratelimit-remaining-${what}`));
}

function asked(): number {
  return rig.upstream.a.ledger.chats.length;
}

/** Both headers of a wait, and that they agree. */
function waitOf({ response }: { readonly response: RawResponse }): number {
  const ms = Number(response.header("retry-after-ms"));
  expect(Number(response.header("retry-after"))).toBe(Math.ceil(ms / 1_000));
  return ms;
}

function clientOf(token: string, maxRetries = 0): OpenAI {
  return new OpenAI({ apiKey: token, baseURL: `${rig.gateway.url}/v1`, maxRetries });
}

const hello = { model: "plain", messages: [{ role: "user" as const, content: "hi" }] };

describe("requests per minute", () => {
  test("are counted down in the headers of every answer, and a request over the limit is refused before an upstream is asked", async () => {
    const { token, id } = await keys.make({ limits: { rpm: 3 } });
    for (const left of ["2", "1", "0"]) {
      const reply = await chat(token);
      expect(reply.status).toBe(200);
      expect(limitHeaders(reply, "requests")).toEqual(["3", left, expect.stringMatching(/^\d/) as string]);
      expect(limitHeaders(reply, "tokens")).toEqual([null, null, null]);
    }
    const before = asked();
    const refused = await chat(token);
    expect(refused).toMatchObject({ status: 429, error: { type: "rate_limit_error", code: "rate_limit_exceeded" } });
    expect(refused.error?.message).toContain("3 requests per minute");
    expect(limitHeaders(refused, "requests").slice(0, 2)).toEqual(["3", "0"]);
    expect(waitOf(refused)).toBeGreaterThan(1_000);
    expect(waitOf(refused)).toBeLessThanOrEqual(60_000);
    expect(refused.response.header("x-should-retry")).toBeNull();
    expect(asked()).toBe(before);
    expect(await rig.accessLine(refused.requestId)).toMatchObject({ key: id, status: 429, error: "limited", attempts: 0 });
  });

  test("hold for keys of the file as well", async () => {
    expect((await chat(fileKey)).status).toBe(200);
    expect((await chat(fileKey)).status).toBe(429);
  });

  test("streams are counted too, and the headers come with them", async () => {
    const { token } = await keys.make({ limits: { rpm: 2 } });
    const reply = await rig.chat({ model: "plain" }, { key: token, stream: true });
    expect(limitHeaders(reply, "requests").slice(0, 2)).toEqual(["2", "1"]);
    expect(reply.done).toBe(true);
  });

  test("that were refused for another reason, or reached nobody, count for nothing", async () => {
    const { token } = await keys.make({ limits: { rpm: 1 } });
    expect((await chat(token, { model: "never-heard-of" })).status).toBe(404);
    expect((await chat(token, { messages: [] })).status).toBe(400);
    expect((await chat(token)).status).toBe(200);
  });

  test("of one key are not another's, and a raised limit holds within seconds without forgetting what was used", async () => {
    const [one, other] = [await keys.make({ limits: { rpm: 1 } }), await keys.make({ limits: { rpm: 1 } })];
    expect([(await chat(one.token)).status, (await chat(one.token)).status]).toEqual([200, 429]);
    expect((await chat(other.token)).status).toBe(200);
    const { limits } = (await keys.store.storage.keys.get(one.id))!;
    await keys.store.storage.keys.change(one.id, { limits: { ...limits, requests: 2 } }, { kind: "cli", name: "tester" });
    await eventually("the raised limit holds", async () => (await chat(one.token)).status === 200);
    expect((await chat(one.token)).status).toBe(429);
  });
});

describe("tokens per minute", () => {
  test("are reserved before the call and returned after a short answer, so that a refused request is served", async () => {
    const { token } = await keys.make({ limits: { tpm: 1_000 } });
    const call = await rig.open({ model: "short", max_tokens: 900, x_first_ms: 700, x_tokens: 5 }, { key: token });
    await rig.upstream.a.waitFor((ledger) => ledger.ofCall(call.call ?? "").length === 1);
    const refused = await chat(token, { model: "short", max_tokens: 900 });
    expect(refused).toMatchObject({ status: 429, error: { code: "rate_limit_exceeded" } });
    expect(limitHeaders(refused, "tokens")[0]).toBe("1000");
    expect(remaining(refused, "tokens")).toBeLessThan(100);
    waitOf(refused);
    expect((await call.reply).status).toBe(200);
    expect((await chat(token, { model: "short", max_tokens: 900 })).status).toBe(200);
  });

  test("a long answer counts for all it was", async () => {
    const { token } = await keys.make({ limits: { tpm: 5_000 } });
    const first = await chat(token, { model: "long", x_tokens: 3_000, max_tokens: 10 });
    expect(remaining(first, "tokens")).toBeGreaterThan(4_900);
    const second = await chat(token, { model: "long", max_tokens: 10 });
    const left = 5_000 - 3_002 - 10;
    expect(remaining(second, "tokens")).toBeGreaterThan(left - 40);
    expect(remaining(second, "tokens")).toBeLessThanOrEqual(left + 10);
  });

  test("a streamed answer counts the same, and so does what a client that left had caused", async () => {
    const { token } = await keys.make({ limits: { tpm: 50_000 } });
    await rig.chat({ model: "streamed", x_tokens: 2_000, max_tokens: 10 }, { key: token, stream: true });
    const before = remaining(await chat(token, { max_tokens: 10 }), "tokens");
    expect(before).toBeLessThan(48_000);
    const left = await rig.open({ model: "streamed", x_tokens: 20_000, x_pace_ms: 1, max_tokens: 10 }, { key: token, stream: true });
    await left.untilBody(60_000);
    left.abort();
    await eventually("it is counted", async () => remaining(await chat(token, { max_tokens: 1 }), "tokens") < before - 200);
  });

  test("a request that alone needs more than the limit gets an error that says so", async () => {
    const { token } = await keys.make({ limits: { tpm: 100 } });
    const refused = await chat(token, { model: "alone", max_tokens: 5_000 });
    expect(refused).toMatchObject({ status: 429, error: { code: "rate_limit_exceeded" } });
    expect(refused.error?.message).toContain("can never pass");
    expect([refused.response.header("x-should-retry"), refused.response.header("retry-after")]).toEqual(["false", null]);
  });

  test("huge and negative max_tokens neither crash nor bypass the limit", async () => {
    const { token } = await keys.make({ limits: { tpm: 100_000 } });
    for (const max_tokens of [1e9, 1e308, Number.MAX_SAFE_INTEGER])
      expect((await chat(token, { model: "huge", max_tokens })).status).toBe(429);
    for (const max_tokens of [-1, -1e9, 0, 0.5]) expect((await chat(token, { model: "huge", max_tokens })).status).toBe(200);
    expect(remaining(await chat(token, { max_tokens: 1 }), "tokens")).toBeLessThan(100_000);
  });
});

describe("audio and characters per minute", () => {
  test("seconds of audio are measured from the file before it is sent on", async () => {
    const { token } = await keys.make({ limits: { audio_seconds: 60 } });
    const transcribe = (seconds: number): Promise<Response> => {
      const form = new FormData();
      form.append("model", "plain");
      // As many seconds as the upstream will say that it heard.
      form.append("x_tokens", String(seconds));
      form.append("file", new File([waveOf(seconds)], "a.wav", { type: "audio/wav" }));
      return fetch(`${rig.gateway.url}/v1/audio/transcriptions`, {
        method: "POST",
        headers: { Authorization: `Bearer ${token}` },
        body: form,
      });
    };
    expect((await transcribe(45)).status).toBe(200);
    const before = asked();
    const refused = await transcribe(45);
    expect(refused.status).toBe(429);
    expect(await refused.text()).toContain("60 seconds of audio per minute");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(asked()).toBe(before);
    expect((await transcribe(10)).status).toBe(200);
  });

  test("characters are those of the text to be spoken", async () => {
    const { token } = await keys.make({ limits: { characters: 100 } });
    const speak = (characters: number): Promise<RawResponse> =>
      rawRequest(`${rig.gateway.url}/v1/audio/speech`, {
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
        body: JSON.stringify({ model: "plain", input: "é".repeat(characters), voice: "alloy", response_format: "pcm" }),
      });
    expect((await speak(70)).status).toBe(200);
    const refused = await speak(31);
    expect([refused.status, refused.text.includes("100 characters per minute")]).toEqual([429, true]);
    expect((await speak(30)).status).toBe(200);
  });
});

describe("calls at the same time", () => {
  test("are held to the limit, and the next one is served as soon as one ends or its client leaves", async () => {
    const { token } = await keys.make({ limits: { concurrency: 2 } });
    const open = () => rig.open({ model: "plain", x_tokens: 5_000, x_pace_ms: 5 }, { key: token, stream: true, timeoutMs: 30_000 });
    const [one, two] = [await open(), await open()];
    await Promise.all([one.untilBody(1), two.untilBody(1)]);
    const refused = await chat(token);
    expect(refused).toMatchObject({ status: 429, error: { type: "rate_limit_error", code: "concurrency_limit" } });
    expect(refused.error?.message).toContain("2 calls at the same time");
    expect(waitOf(refused)).toBe(1_000);
    one.abort();
    await eventually("a slot is free", async () => (await chat(token)).status === 200);
    const three = await open();
    await three.untilBody(1);
    expect((await chat(token)).status).toBe(429);
    two.abort();
    three.abort();
  });

  test("that fail free their slots, also those that never reached an upstream", async () => {
    const { token } = await keys.make({ limits: { concurrency: 1 } });
    rig.upstream.a.script(["fault:status@400"]);
    for (const model of ["plain", "never-heard-of", "plain", "plain"])
      expect([200, 400, 404]).toContain((await chat(token, { model })).status);
  });

  test("the official client waits as it is told, and is then served", async () => {
    const { token } = await keys.make({ limits: { concurrency: 1 } });
    const call = await rig.open({ model: "plain", x_tokens: 30, x_pace_ms: 20 }, { key: token, stream: true });
    await call.untilBody(1);
    const fromMs = performance.now();
    const answer = await clientOf(token, 1).chat.completions.create(hello);
    expect(answer.choices[0]?.finish_reason).toBe("stop");
    expect(performance.now() - fromMs).toBeGreaterThan(900);
    await call.reply;
  });
});

describe("limits for some models", () => {
  test("apply besides the key's own, and the first that matches counts", async () => {
    const { token } = await keys.make({
      limits: {
        rpm: 4,
        per_model: [
          { model: "gpt-mini", rpm: 3 },
          { model: "gpt-*", rpm: 1 },
        ],
      },
    });
    const ask = async (model: string): Promise<number> => (await chat(token, { model })).status;
    expect([await ask("gpt-large"), await ask("gpt-large")]).toEqual([200, 429]);
    expect([await ask("gpt-mini"), await ask("gpt-mini")]).toEqual([200, 200]);
    expect(await ask("plain")).toBe(200);
    const own = await chat(token, { model: "plain" });
    expect(own).toMatchObject({ status: 429, error: { message: expect.stringContaining("4 requests per minute") as string } });
  });

  test("say which models they are for, and the headers are of the tighter one", async () => {
    const { token } = await keys.make({ limits: { rpm: 100, per_model: [{ model: "gpt-*", rpm: 1 }] } });
    expect(limitHeaders(await chat(token, { model: "gpt-mini" }), "requests").slice(0, 2)).toEqual(["1", "0"]);
    const refused = await chat(token, { model: "gpt-large" });
    expect(refused.error?.message).toContain('"gpt-*"');
    expect(limitHeaders(await chat(token), "requests").slice(0, 2)).toEqual(["100", "98"]);
  });
});

describe("the official client", () => {
  test("raises a RateLimitError", async () => {
    const { token } = await keys.make({ limits: { rpm: 1 } });
    const client = clientOf(token);
    await client.chat.completions.create(hello);
    const refused: unknown = await client.chat.completions.create(hello).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(RateLimitError);
    expect(refused).toMatchObject({ status: 429, code: "rate_limit_exceeded", type: "rate_limit_error" });
  });

  test("does not ask again where no wait helps", async () => {
    const { token, id } = await keys.make({ limits: { tpm: 100 } });
    const refused: unknown = await clientOf(token, 3)
      .chat.completions.create({ ...hello, model: "alone", max_tokens: 5_000 })
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(RateLimitError);
    await rig.accessLine((await chat(clientKey)).requestId);
    expect(rig.gateway.accessLines().filter((line) => line["key"] === id)).toHaveLength(1);
  });
});

describe("a noisy neighbour", () => {
  test("far over its limit costs less than it would if it were served, and others are served meanwhile", async () => {
    const noisy = await keys.make({ limits: { rpm: 1 } });
    const quiet = await keys.make({ limits: { rpm: 1_000 } });
    const flood = async (token: string, calls: number): Promise<readonly number[]> => {
      const statuses: number[] = [];
      const line = async (): Promise<void> => {
        while (statuses.length < calls) {
          const answer = await fetch(`${rig.gateway.url}/v1/chat/completions`, {
            method: "POST",
            headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
            body: JSON.stringify(hello),
          });
          await answer.arrayBuffer();
          statuses.push(answer.status);
        }
      };
      await Promise.all(Array.from({ length: 4 }, line));
      return statuses;
    };
    const servedMs = await cpuOf(() => flood(quiet.token, 400));
    const before = asked();
    let others: readonly number[] = [];
    const refusedMs = await cpuOf(async () => {
      const [refused, served] = await Promise.all([flood(noisy.token, 1_200), flood(quiet.token, 40)]);
      expect(refused.filter((status) => status === 200)).toHaveLength(1);
      expect(refused.every((status) => status === 200 || status === 429)).toBe(true);
      others = served;
    });
    expect(others.every((status) => status === 200)).toBe(true);
    expect(asked() - before).toBe(1 + others.length);
    // Measured: about a tenth. The first has to be more than what a clock of 10 ms makes of nothing.
    if (servedMs !== null && refusedMs !== null) expect(refusedMs / 1_240).toBeLessThan(servedMs / 400);
  });
});

/** What the gateway has computed meanwhile, in milliseconds; null where there is no /proc. */
async function cpuOf(act: () => Promise<unknown>): Promise<number | null> {
  const before = cpuMs(rig.gateway.pid);
  await act();
  const after = cpuMs(rig.gateway.pid);
  return before === null || after === null ? null : after - before;
}

function cpuMs(pid: number): number | null {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
    return 10 * (Number(fields[11]) + Number(fields[12]));
  } catch {
    return null;
  }
}

/** Silence, eight thousand bytes a second. */
function waveOf(seconds: number): Uint8Array<ArrayBuffer> {
  const data = seconds * 8_000;
  const bytes = Buffer.alloc(44 + data, 0x80);
  bytes.write("RIFF", 0, "latin1");
  bytes.writeUInt32LE(36 + data, 4);
  bytes.write("WAVEfmt ", 8, "latin1");
  bytes.writeUInt32LE(16, 16);
  bytes.writeUInt16LE(1, 20);
  bytes.writeUInt16LE(1, 22);
  bytes.writeUInt32LE(8_000, 24);
  bytes.writeUInt32LE(8_000, 28);
  bytes.writeUInt16LE(1, 32);
  bytes.writeUInt16LE(8, 34);
  bytes.write("data", 36, "latin1");
  bytes.writeUInt32LE(data, 40);
  return bytes;
}
