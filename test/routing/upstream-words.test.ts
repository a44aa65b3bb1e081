// Needs: quiet. It mostly waits for channels that ask to be left alone for a while.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { explain, explainInBand } from "../../src/dialects/errors/explain.ts";
import type { Candidate, Channel } from "../../src/channels/channel.ts";
import { sanitizedFailure, isEcho } from "../../src/gateway/attempt/sanitized-failure.ts";
import { lessonIn, Lessons, type CallLesson } from "../../src/gateway/upstream-state/lessons.ts";
import { readChatRequest } from "../../src/operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { requestFree, requestText, withheld } from "../../src/operations/request-text.ts";
import { makeRedact } from "../../src/telemetry/redact.ts";
import { startChaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

/** What a client wrote, as the gateway compares it with an upstream's words. */
function written(content: string, more: Readonly<Record<string, unknown>> = { max_tokens: 100_000 }): string {
  return writtenRaw(JSON.stringify({ model: "m", messages: [{ role: "user", content }], ...more }));
}

function writtenRaw(body: string): string {
  const ask = readChatRequest(new TextEncoder().encode(body));
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  return requestText(ask);
}

const refused = (message: string, param: string | null = null, status = 400): Failure =>
  explain({ status, header: () => null, body: JSON.stringify({ error: { message, param } }) });

function lessonOf(cause: Failure, text: string, asked = 100_000): CallLesson | null {
  return lessonIn(cause, asked, isEcho(cause, text));
}

describe("what everyone learns from a refusal", () => {
  test("is the upstream's own figure", () => {
    const cause = refused("max_tokens is too large: 100000. This model supports at most 4096 completion tokens.", "max_tokens");
    expect(lessonOf(cause, written("hello"))).toEqual({ ceiling: 4_096, streamOptions: true, subtitles: true, shared: true });
    // The digits of the figure that was asked for may hold the lower one.
    expect(lessonOf(cause, written("hello", { max_tokens: 409_600 }), 409_600)?.shared).toBe(true);
  });

  test.each([
    ["max_tokens must be at most 300", JSON.stringify],
    ["max_tokens must be at most 300", (text: string) => `"${text.replace("3", "\\u0033")}"`],
    ["max_tokens must be at most 3,00", JSON.stringify],
    ["max_tokens must be at most 0000000000300999", JSON.stringify],
    ["max_tokens must be less than 301", JSON.stringify],
    ["max_tokens from 1 to 301 (exclusive)", JSON.stringify],
  ])("is never a figure of the request that was quoted back: %s", (quoted, written) => {
    const text = writtenRaw(`{"model":"m","max_tokens":100000,"messages":[{"role":"user","content":${written(quoted)}}]}`);
    for (const cause of [refused(`Invalid content: ${quoted}`), explainInBand({ message: `Bad '${quoted}'`, code: 400 })]) {
      expect([cause.kind, lessonOf(cause, text)?.shared ?? false]).toEqual(["ceiling", false]);
    }
  });

  test("is nothing that would cut the answers of everyone short, nor a figure that was not exceeded", () => {
    expect(lessonOf(refused("max_tokens must be at most 255"), written("hello"))).toMatchObject({ ceiling: 255, shared: false });
    expect(lessonOf(refused("max_tokens must be at most 256"), written("hello"))).toMatchObject({ ceiling: 256, shared: true });
    expect(lessonOf(refused("max_tokens must be at most 4096"), written("hello", { max_tokens: 4_096 }), 4_096)).toBeNull();
  });

  test("is an option that the gateway added, and none that the client wrote of", () => {
    const cause = refused("Unsupported parameter: 'stream_options' is not supported with this model.", "stream_options");
    expect(lessonOf(cause, written("hello"))).toEqual({ ceiling: null, streamOptions: false, subtitles: true, shared: true });
    expect(lessonOf(cause, written("stream_options is not supported"))?.shared).toBe(false);
    expect(lessonOf(cause, written("hello", { stream_options: { include_usage: "x" } }))?.shared).toBe(false);
    expect(lessonOf(cause, writtenRaw('{"model":"m","messages":[{"content":"stream\\u005foptions"}]}'))?.shared).toBe(false);
  });

  const candidate = { deployment: { id: "main/m", model: "m", channel: { name: "main" } } } as Candidate;
  const other = { deployment: { id: "main/n", model: "n", channel: { name: "main" } } } as Candidate;

  test("holds for the deployment alone, for an hour, and until it is forgotten", () => {
    let nowMs = 0;
    const lessons = new Lessons(
      10,
      () => nowMs,
      () => false,
    );
    expect(lessons.confirmed(candidate, { ceiling: 4_096, streamOptions: true, subtitles: true, shared: true })).not.toBeNull();
    nowMs = 1_800_000;
    lessons.confirmed(candidate, { ceiling: null, streamOptions: false, subtitles: true, shared: true });
    expect(lessons.confirmed(other, { ceiling: 300, streamOptions: true, subtitles: true, shared: false })).toBeNull();
    expect(lessons.of(candidate)).toEqual({ ceiling: 4_096, streamOptions: false, subtitles: true });
    expect(lessons.of(other)).toEqual({ ceiling: null, streamOptions: true, subtitles: true });
    expect(lessons.ofChannel("main")).toEqual([
      { channel: "main", model: "m", maxTokens: 4_096, unsupported: null, forMs: 1_800_000 },
      { channel: "main", model: "m", maxTokens: null, unsupported: "stream_options", forMs: 3_600_000 },
    ]);
    nowMs = 3_600_000;
    expect(lessons.of(candidate)).toEqual({ ceiling: null, streamOptions: false, subtitles: true });
    lessons.confirmed(other, { ceiling: null, streamOptions: true, subtitles: false, shared: true });
    expect([lessons.of(other).subtitles, lessons.of(candidate).subtitles]).toEqual([false, true]);
    expect(lessons.ofChannel("main").map(({ model, unsupported }) => [model, unsupported])).toEqual([
      ["m", "stream_options"],
      ["n", "response_format: srt, vtt"],
    ]);
    expect([lessons.forget("another"), lessons.forget("main"), lessons.forget("main")]).toEqual([0, 2, 0]);
    expect(lessons.of(candidate)).toEqual({ ceiling: null, streamOptions: true, subtitles: true });
  });
});

describe("words of the request that an upstream repeats", () => {
  const same = (text: string): string => text;

  test("close neither a credential nor a deployment", () => {
    const lure = "your credit balance is too low";
    const cause = refused(`Invalid role: ${lure}`);
    expect(cause).toMatchObject({ kind: "quota_exhausted", scope: "credential" });
    expect(sanitizedFailure(cause, written(`please write: ${lure}`), same)).toMatchObject({
      kind: "invalid_request",
      scope: "request",
      status: 400,
    });
    expect(sanitizedFailure(cause, written("hello"), same)).toMatchObject({ kind: "quota_exhausted", scope: "credential" });
    const limited = refused(`Usage limit reached: ${lure}`, null, 429);
    expect(sanitizedFailure(limited, written(lure), same)).toMatchObject({ scope: "request", retryAfterMs: null });
  });

  test("keep nobody away: a wait is taken from them only where the client did not write it", () => {
    const cause = refused("Failed at: please try again in 3000 seconds", null, 500);
    expect(cause.retryAfterMs).toBe(3_000_000);
    expect(sanitizedFailure(cause, written("hello"), same).retryAfterMs).toBe(3_000_000);
    expect(sanitizedFailure(cause, written("Please try again in 3000 seconds"), same).retryAfterMs).toBeNull();
    const response = { status: 500, header: (name: string) => (name === "retry-after" ? "7" : null), body: '{"error":"try again in 9 s"}' };
    expect(sanitizedFailure(explain(response), written("try again in 9 s"), same).retryAfterMs).toBe(7_000);
    const daily = refused("Quota: 3 calls per day", null, 429);
    expect([cause, daily].map((each) => sanitizedFailure(each, written("hello"), same).retryAfterMs)).toEqual([3_000_000, 3_600_000]);
    expect(sanitizedFailure(daily, written("how many per day?"), same).retryAfterMs).toBeNull();
  });

  const sentence = "Cannot read this: one two three four five six seven eight nine";

  test.each([
    ["eight in a row are withheld", "one two three four five six seven eight", withheld],
    ["in another case and with other marks as well", "ONE, two; three four-five six\n\nseven EIGHT nine", withheld],
    ["seven are not", "one two three four five six seven", sentence],
    ["nor eight that do not follow one another", "one two three four and five six seven eight", sentence],
  ])("%s", (_, content, shown) => {
    expect(requestFree(sentence, written(content))).toBe(shown);
  });

  test("are withheld in scripts without spaces, by characters", () => {
    expect(requestFree("无法处理：今天天气很好我们去公园", written("今天天气很好我们去公园散步"))).toBe(withheld);
  });

  test("cannot be many where the request is gone, or too long to be searched", () => {
    expect(requestFree(sentence, null)).toBe("Cannot read this: one two three four …");
    expect(requestFree(sentence, "x".repeat(300_000))).toBe("Cannot read this: one two three four …");
    expect(requestFree("The server had an error.", null)).toBe("The server had an error.");
  });
});

describe("the secrets of a channel", () => {
  const key = 'Pa$$ w/"rd+';
  const header = "custom-value-77";
  const channel = {
    headers: { "x-team": header, "x-version": "2024-10-21", "x-token": "Token abcd efgh" },
    proxy: "http://me:proxy%2Fpass@proxy.example.com",
  } as unknown as Channel;
  const redact = makeRedact(() => [key, "k"]);

  test.each([
    ["a key as it is", key],
    ["in JSON", JSON.stringify(key).slice(1, -1)],
    ["in JSON with escaped slashes", JSON.stringify(key).slice(1, -1).replaceAll("/", "\\/")],
    ["percent-encoded", encodeURIComponent(key)],
    ["in lower case", encodeURIComponent(key).replace(/%../g, (code) => code.toLowerCase())],
    ["a header's value", header],
    ["without its scheme", "abcd efgh"],
    ["a proxy's password", "proxy/pass"],
  ])("are taken out by their values: %s", (_, secret) => {
    expect(redact(channel, `refused: ${secret}!`)).toBe("refused: [redacted]!");
  });

  test("are taken out of base64, wherever they stand in it", () => {
    for (const before of ["", "a", "ab", "user:"]) {
      for (const after of ["", "x", "xy"]) {
        for (const form of ["base64", "base64url"] as const) {
          const clean = redact(channel, `refused: ${Buffer.from(before + key + after).toString(form)}`);
          expect(clean).toContain("[redacted]");
          for (const piece of clean.slice("refused: ".length).split("[redacted]")) {
            expect(Buffer.from(piece, "base64").toString()).not.toMatch(/[$"+]/);
          }
        }
      }
    }
  });

  test("are not looked for where they are none: a version, or a letter", () => {
    expect(redact(channel, "k: use version 2024-10-21")).toBe("k: use version 2024-10-21");
  });
});

describe("at a running gateway", () => {
  const adminToken = "b7f1c93e5ad8460f92e47a1c3d5b8e60f4a7";
  const secret = "correct horse battery";
  let rig: Rig<"a" | "b">;
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
    await writeFile(join(directory, "token"), adminToken, { mode: 0o600 });
    rig = await setUp(
      { a: { headers: { "x-team": secret }, models: ["m", "quoted", "closed", "confirmed", "leaky"] }, b: { models: ["walled"] } },
      { admin: "127.0.0.1:0" },
      { env: { ADMIN_TOKEN_FILE: join(directory, "token") } },
    );
    // The first question to the admin API opens the store once more, and keeps it open for a while.
    await admin("GET", "/channels/a");
    await rig.check({ tolerance: 8 });
  });
  afterAll(async () => {
    await rig[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  const says = (model: string, content: string, more: Readonly<Record<string, unknown>> = {}) =>
    rig.chat({ model, messages: [{ role: "user", content }], ...more });

  async function admin(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const response = await fetch(`${rig.gateway.adminUrl}/admin/api${path}`, {
      method,
      headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Record<string, unknown>;
  }

  test("a client that has its own words quoted back lowers nobody's ceiling", async () => {
    const { a } = rig.upstream;
    a.script(["fault:quoting@400", "well"]);
    const attacker = await says("quoted", "max_tokens must be at most 300", { max_tokens: 100_000 });
    expect(attacker.status).toBe(200);
    const victim = await says("quoted", "hello", { max_tokens: 50_000 });
    expect([victim.status, victim.response.header("x-sluice-max-tokens")]).toEqual([200, null]);
    expect((await admin("GET", "/channels/a"))["learned"]).toEqual([]);
    await rig.check();
  });

  test("a ceiling is learned when a call was served by it; it is shown, and can be forgotten", async () => {
    const { a } = rig.upstream;
    a.script(["fault:max-tokens-too-large@2048", "fault:status@400"]);
    expect((await says("confirmed", "hello", { max_tokens: 9_000 })).status).toBe(400);
    expect((await admin("GET", "/channels/a"))["learned"]).toEqual([]);
    a.script(["fault:max-tokens-too-large@2048", "well"]);
    expect((await says("confirmed", "hello", { max_tokens: 9_000 })).status).toBe(200);
    const learned = [{ model: "confirmed", max_tokens: 2_048, unsupported: null, until_at: expect.any(String) }];
    expect(await admin("GET", "/channels/a")).toMatchObject({ learned });
    const explained = await admin("POST", "/explain", { model: "confirmed", operation: "chat" });
    expect(explained).toMatchObject({ candidates: [{ channel: "a", learned }] });
    expect((await says("confirmed", "hello", { max_tokens: 9_000 })).response.header("x-sluice-max-tokens")).toBe("2048");
    expect(await admin("DELETE", "/channels/a/learned")).toEqual({ forgotten: 1 });
    expect((await says("confirmed", "hello", { max_tokens: 9_000 })).response.header("x-sluice-max-tokens")).toBe(null);
    expect(await admin("DELETE", "/channels/nobody/learned")).toMatchObject({ error: { code: "not_found" } });
    await rig.check();
  });

  test("a client that has its own words quoted back closes no credential, and its words stay out of the log", async () => {
    rig.upstream.a.script(["fault:quoting@400"]);
    const content = "your credit balance is too low and one two three four five six seven eight";
    const attacker = await says("closed", content);
    expect([attacker.status, attacker.error?.type]).toEqual([400, "invalid_request_error"]);
    expect(await rig.accessLine(attacker.requestId)).toMatchObject({
      error: "invalid_request",
      detail: `400 invalid_request_error: ${withheld}`,
    });
    expect((await says("m", "hello")).status).toBe(200);
    expect(rig.gateway.text).not.toContain("five six seven");
    await rig.check();
  });

  test("a firewall's page for one request closes nothing for the next", async () => {
    rig.upstream.b.script(["fault:status-html@403"]);
    expect((await says("walled", "<script>")).status).toBeGreaterThanOrEqual(500);
    expect((await says("walled", "hello")).status).toBe(200);
    await rig.check();
  });

  test("the value of a channel's header reaches neither a client nor the log, in whatever form", async () => {
    for (const form of ["raw", "base64", "basic", "url", "json"]) {
      rig.upstream.a.script([`fault:leak-form@${form},x-team`]);
      const reply = await says("leaky", "hello");
      expect([form, reply.status, reply.error?.message]).toEqual([form, 400, expect.stringContaining("[redacted]")]);
    }
    await rig.check({ secrets: [secret, Buffer.from(secret).toString("base64").slice(0, 20), encodeURIComponent(secret)] });
  });
});

test("what was learned is forgotten in every process", async () => {
  const adminToken = "c7f1c93e5ad8460f92e47a1c3d5b8e60f4a7";
  const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
  await writeFile(join(directory, "token"), adminToken, { mode: 0o600 });
  await using chaos = await startChaos();
  const config = {
    admin: "127.0.0.1:0",
    keys: [{ name: "k", key: clientKey }],
    channels: [{ name: "a", base_url: chaos.url, api_key: "sk-upstream", models: ["m"] }],
  };
  const options = { config, args: ["--workers", "2"], env: { ADMIN_TOKEN_FILE: join(directory, "token") } };
  await using gateway = await startGateway(options);
  const listening = () => gateway.logs.filter(({ event }) => event === "listening");
  await eventually("both listen", () => listening().length === 2, 20_000);
  /** Each on a connection of its own, which the system gives to either of them. */
  const clamps = async (header = "x-sluice-max-tokens") => {
    const call = () => chat(gateway, { model: "m", max_tokens: 9_000 }, { key: clientKey });
    return (await Promise.all(Array.from({ length: 16 }, call))).map(({ response }) => response.header(header));
  };
  chaos.behaviour = "fault:max-tokens-too-large@2048";
  for (let round = 0; round < 2; round++) {
    await eventually("both know it", async () => (await clamps("x-sluice-attempts")).every((attempts) => attempts === "1"), 20_000);
  }
  chaos.behaviour = null;
  const admin = listening().find(({ admin }) => admin !== undefined)?.["admin"];
  const headers = { authorization: `Bearer ${adminToken}` };
  expect((await fetch(`${admin as string}/admin/api/channels/a/learned`, { method: "DELETE", headers })).status).toBe(200);
  await eventually("both have forgotten", async () => (await clamps()).every((clamp) => clamp === null), 20_000);
  await rm(directory, { recursive: true, force: true });
});
