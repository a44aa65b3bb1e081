// Needs: quiet. It mostly waits for the stand-in of an upstream to misbehave.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import net, { type AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { untilRead } from "../support/chaos/unread.ts";
import { chat, openChat, RawConnection, rawRequest, RawResponse, sseEvents, type ChatOptions } from "../support/client.ts";
import { faults } from "../support/faults.ts";
import { refusedUrl } from "../support/refused-port.ts";
import { slowed } from "../support/slowed.ts";
import { makeCertificates } from "../support/tls.ts";

let chaos: Chaos;

beforeAll(async () => {
  chaos = await startChaos({ name: "a" });
});

afterAll(async () => {
  await chaos.close();
});

const streamed = (model: string, options: ChatOptions = {}) => chat(chaos, { model }, { stream: true, ...options });
const whole = (model: string, options: ChatOptions = {}) => chat(chaos, { model }, options);
const lastAttempt = () => {
  const attempt = chaos.ledger.chats.at(-1);
  if (attempt === undefined) throw new Error("nobody has asked yet");
  return attempt;
};

describe("a healthy answer", () => {
  test("carries tokens that name their attempt, and the ledger has the same", async () => {
    const reply = await whole("some-model");
    const { id, tokensSent, endedBy, model } = lastAttempt();
    expect(reply.content).toBe([0, 1, 2, 3, 4].map((index) => `${id}:${index}`).join(" "));
    expect(tokensSent.join("")).toBe(reply.content);
    expect({ endedBy, model }).toEqual({ endedBy: "complete", model: "some-model" });
    expect(reply.usage).toEqual({ prompt_tokens: 2, completion_tokens: 5, total_tokens: 7 });
    expect(reply.response.endedCleanly).toBe(true);
  });

  test("streams role, tokens, finish, usage and the end, in this order", async () => {
    const body = { stream_options: { include_usage: true }, x_tokens: 3 };
    const reply = await chat(chaos, body, { stream: true });
    const chunks = reply.events.slice(0, -1).map((event) => JSON.parse(event));
    expect(chunks[0].choices[0].delta.role).toBe("assistant");
    expect(chunks.slice(1, 4).map((chunk) => chunk.choices[0].delta.content)).toEqual(lastAttempt().tokensSent);
    expect(chunks[4].choices[0].finish_reason).toBe("stop");
    expect(chunks[5].choices).toEqual([]);
    expect(chunks[5].usage.completion_tokens).toBe(3);
    expect(reply.done).toBe(true);
    expect(reply.response.header("transfer-encoding")).toBe("chunked");
  });

  test("gives every choice its own tokens", async () => {
    const { contents } = await chat(chaos, { n: 2, x_tokens: 2 }, { stream: true });
    const { id } = lastAttempt();
    expect(contents).toEqual([`${id}:0 ${id}:1`, `${id}.1:0 ${id}.1:1`]);
  });

  test("calls a tool, its arguments in fragments", async () => {
    const parameters = { type: "object", properties: { city: { type: "string" } } };
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    const reply = await chat(chaos, { tools, tool_choice: "required" }, { stream: true });
    const calls = reply.events.slice(0, -1).flatMap((event) => JSON.parse(event).choices[0].delta.tool_calls ?? []);
    expect(calls[0].function.name).toBe("weather");
    expect(calls.length).toBeGreaterThan(2);
    const joined = calls.map((call) => call.function.arguments).join("");
    expect(JSON.parse(joined)).toEqual({ city: `${lastAttempt().id}:city` });
    expect(reply.finishReason).toBe("tool_calls");
  });

  test("fulfils a schema", async () => {
    const properties = {
      name: { type: "string" },
      size: { type: "number" },
      good: { type: "boolean" },
      tags: { type: "array", items: { type: "integer" } },
    };
    const json_schema = { name: "thing", schema: { type: "object", properties } };
    const reply = await chat(chaos, { response_format: { type: "json_schema", json_schema } }, { stream: true });
    const tag = `${lastAttempt().id}:name`;
    expect(JSON.parse(reply.content)).toEqual({ name: tag, size: 1.5, good: true, tags: [1] });
  });

  test("says what it is told to say, in words or byte by byte", async () => {
    const reply = await chat(chaos, { x_reply: "one  two\nthree " }, { stream: true });
    expect(reply.content).toBe("one  two\nthree ");
    expect(lastAttempt().tokensSent).toEqual(["one", "  two", "\nthree", " "]);
    const raw = await chat(chaos, { x_raw: "data: anything\n\n" }, { stream: true });
    expect(raw.response.text).toBe("data: anything\n\n");
  });

  test("lists the models it was given", async () => {
    chaos.models = ["one", "two"];
    const response = await rawRequest(`${chaos.url}/models`);
    expect(response.json()).toMatchObject({ data: [{ id: "one" }, { id: "two" }] });
  });

  test("keeps the request byte for byte, chunked or not", async () => {
    const body = '{"model": "x",  "seed": 9007199254740993, "messages":[]}';
    await chat(chaos, body);
    expect(Buffer.from(lastAttempt().body).toString()).toBe(body);
    await chat(chaos, body, { chunked: true, headers: { "X-Odd-CASE": "1" } });
    expect(Buffer.from(lastAttempt().body).toString()).toBe(body);
    expect(Buffer.from(lastAttempt().head).toString()).toContain("\r\nX-Odd-CASE: 1\r\n");
  });

  test("serves several requests on one connection", async () => {
    const connection = await RawConnection.open(chaos.url);
    const request = Buffer.from("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
    await connection.send(Buffer.concat([request, request]));
    const first = await connection.receive(new RawResponse(), "GET");
    const second = await connection.receive(new RawResponse(), "GET");
    connection.close();
    expect([first.status, second.status]).toEqual([200, 200]);
    const [before, last] = chaos.ledger.attempts.slice(-2);
    expect(before?.connection).toBe(last?.connection ?? -1);
  });
});

describe("what an attempt meets", () => {
  test("is scripted first, then set, then named by the model", async () => {
    chaos.script(["fault:status@500", "ok"]);
    chaos.behaviour = "fault:status@503";
    const statuses: number[] = [];
    for (let count = 0; count < 3; count += 1) statuses.push((await whole("fault:status@418")).status);
    chaos.behaviour = null;
    statuses.push((await whole("fault:status@418")).status);
    expect(statuses).toEqual([500, 200, 503, 418]);
  });

  test("must exist", async () => {
    expect(() => chaos.script(["fault:nonsense"])).toThrow("nonsense");
    const other = await startChaos();
    await chat(other, { model: "fault:nonsense" });
    expect(await complaintOf(other.close())).toContain("nonsense");
  });
});

describe("a broken connection", () => {
  test("may never have been one", async () => {
    expect(await complaintOf(rawRequest(refusedUrl()))).toContain("ECONNREFUSED");
  });

  test.each([1, 2, 50])("is reset after token %i, and the tokens arrive", async (count) => {
    const reply = await streamed(`fault:rst-after@${count}`);
    expect(reply.response.wasReset).toBe(true);
    expect(reply.content).toBe(lastAttempt().tokensSent.join(""));
    expect(lastAttempt().tokensSent.length).toBe(count);
    expect(lastAttempt().endedBy).toBe("fault");
  });

  test("is not reset before a peer that reads late has read what was sent", async () => {
    const sent = 30_000;
    const server = net.createServer((socket) => {
      socket.write(Buffer.alloc(sent));
      void untilRead(socket).then(() => socket.resetAndDestroy());
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const client = net.connect((server.address() as AddressInfo).port, "127.0.0.1").pause();
    let received = 0;
    const closed = new Promise<void>((resolve) => client.on("error", () => {}).on("close", () => resolve()));
    // Ten times the rest that a peer is left in any case.
    await Bun.sleep(200);
    client.on("data", ({ length }) => void (received += length)).resume();
    await closed;
    server.close();
    expect(received).toBe(sent);
  });

  test("ends without the last chunk", async () => {
    const { response, content } = await streamed("fault:fin-chunked-after@2");
    expect(response.endedCleanly || response.wasReset).toBe(false);
    expect(content).toBe(lastAttempt().tokensSent.join(""));
  });

  test("ends where only the connection would say so", async () => {
    const { response } = await streamed("fault:fin-close-delimited-after@2");
    expect(response.header("transfer-encoding") ?? response.header("content-length")).toBeNull();
    expect(sseEvents(response.body).data.length).toBe(3);
  });

  test("stops in the middle of a body, a head, or before it", async () => {
    const middle = (await whole("fault:rst-mid-body")).response;
    expect(middle.bodyLength).toBe(Number(middle.header("content-length")) >> 1);
    expect(middle.wasReset).toBe(true);
    expect((await whole("fault:fin-mid-body")).response.wasReset).toBe(false);
    expect((await whole("fault:rst-mid-headers")).response).toMatchObject({
      status: 0,
      wasReset: true,
    });
    expect((await whole("fault:close-before-headers")).response.raw.length).toBe(0);
  });

  test("is closed when it is used again, and only then", async () => {
    const connection = await RawConnection.open(chaos.url);
    const body = '{"model":"fault:close-on-reuse"}';
    const request = Buffer.from(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await connection.send(request);
    expect((await connection.receive(new RawResponse())).status).toBe(200);
    const attempts = chaos.ledger.attempts.length;
    await connection.send(request);
    expect((await connection.receive(new RawResponse())).raw.length).toBe(0);
    connection.close();
    expect(chaos.ledger.attempts.length).toBe(attempts);
    expect(chaos.ledger.connections.at(-1)?.closedOnReuse).toBe(true);
  });

  test("that idles can be closed", async () => {
    const connection = await RawConnection.open(chaos.url);
    await connection.send(Buffer.from("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"));
    await connection.receive(new RawResponse(), "GET");
    chaos.closeIdleConnections();
    expect((await connection.receive(new RawResponse())).raw.length).toBe(0);
    connection.close();
    await chaos.waitFor((ledger) => ledger.connectionsOpen === 0);
  });
});

describe("a client that leaves", () => {
  test.each(["fault:silent", "fault:hang-after-headers", "fault:hang-after@2", "fault:heartbeat-after@1"])(
    "is noticed under %s",
    async (model) => {
      const call = await openChat(chaos, { model }, { stream: true });
      await chaos.waitFor((ledger) => ledger.ofCall(call.call ?? "").length === 1);
      const leftAt = performance.now();
      call.abort();
      await chaos.ledger.settled();
      expect(lastAttempt().endedBy).toBe("client_closed");
      expect((lastAttempt().closedAt ?? 0) - leftAt).toBeLessThan(slowed(50));
      expect((await call.reply).response.aborted).toBe(true);
    },
  );

  test("is noticed between tokens", async () => {
    const body = { x_tokens: 1_000, x_pace_ms: 5 };
    const reply = await chat(chaos, body, { stream: true, abort: { afterBodyBytes: 500 } });
    await chaos.ledger.settled();
    expect(lastAttempt().endedBy).toBe("client_closed");
    expect(lastAttempt().tokensSent.join("")).toStartWith(reply.content);
  });
});

test("a flood stops when nobody reads, and goes on when somebody does", async () => {
  const call = await openChat(chaos, { model: "fault:flood" }, { stream: true });
  await call.untilBody(1);
  call.stopReading();
  const stalled = await plateau(() => lastAttempt().bytesSent);
  call.resumeReading();
  await chaos.waitFor(() => lastAttempt().bytesSent > stalled + 1_000_000);
  call.abort();
  await chaos.ledger.settled();
});

describe("HTTP gone wrong", () => {
  test("compresses although nobody asked, piece by piece", async () => {
    const { response } = await streamed("fault:gzip");
    expect(response.header("content-encoding")).toBe("gzip");
    expect(sseEvents(gunzipSync(response.body)).data.at(-1)).toBe("[DONE]");
    const cut = await streamed("fault:gzip+rst-after@2");
    expect(cut.response.bodyLength).toBeGreaterThan(100);
    const stacked = await whole("fault:stacked-encoding");
    let body = stacked.response.body;
    for (let depth = 0; depth < 6; depth += 1) body = gunzipSync(body);
    expect(JSON.parse(Buffer.from(body).toString()).object).toBe("chat.completion");
  });

  test("declares another length than it sends", async () => {
    const long = (await whole("fault:length-too-long")).response;
    expect(long.bodyLength).toBe(Number(long.header("content-length")) - 100);
    const short = await whole("fault:length-too-short");
    expect(short.response.endedCleanly).toBe(true);
    expect(short.content).toBe(lastAttempt().tokensSent.join(""));
  });

  test("breaks its chunks", async () => {
    const abort = { afterMs: 100 };
    expect((await streamed("fault:bad-chunk-size@1", { abort })).response.endedCleanly).toBe(false);
    const both = (await whole("fault:cl-and-te")).response;
    expect(both.header("content-length")).toBe("10");
    expect(both.header("transfer-encoding")).toBe("chunked");
  });

  test("pads its head", async () => {
    expect((await whole("fault:huge-headers")).response.header("x-padding")?.length).toBe(65_536);
    expect((await whole("fault:many-headers")).response.headers.length).toBeGreaterThan(10_000);
    expect((await whole("fault:interim-100+interim-103")).response.interims).toEqual([100, 103]);
  });

  test("does not speak it at all", async () => {
    expect((await whole("fault:garbage")).response.status).toBe(0);
    const text = Buffer.from((await whole("fault:http09")).response.raw).toString();
    expect(text).toStartWith('{"id":');
  });
});

describe("odd streams", () => {
  const odd = [
    "crlf",
    "cr",
    "bom",
    "no-space",
    "comments",
    "multi-line-data",
    "event-id-retry-fields",
    "one-packet",
    "byte-by-byte",
    "malformed-event@2",
    "u2028",
    "nul",
    "lone-surrogate",
    "multi-byte",
    "invalid-utf8",
  ];
  test.each(odd)("%s still carries the text", async (name) => {
    const reply = await streamed(`fault:${name}`);
    expect(reply.content).toBe(lastAttempt().tokensSent.join(""));
    expect(reply.done).toBe(true);
  });

  test("end in their own ways", async () => {
    expect((await streamed("fault:no-done")).done).toBe(false);
    expect((await streamed("fault:no-done")).finishReason).toBe("stop");
    expect((await streamed("fault:done-without-finish")).finishReason).toBeNull();
    expect((await streamed("fault:done-only")).events).toEqual(["[DONE]"]);
    expect((await streamed("fault:empty-stream")).response).toMatchObject({
      bodyLength: 0,
      endedCleanly: true,
    });
    expect((await streamed("fault:role-then-end")).events.length).toBe(1);
    const { response } = await streamed("fault:no-final-blank-line");
    expect(sseEvents(response.body).trailing).toBe("data: [DONE]\n");
  });

  test("bring errors", async () => {
    expect((await streamed("fault:sse-error-first@overloaded_error")).error?.type).toBe("overloaded_error");
    const late = await streamed("fault:sse-error-after@2");
    expect([late.content, late.error?.type]).toEqual([lastAttempt().tokensSent.join(""), "server_error"]);
    expect(sseEvents((await streamed("fault:error-event-named")).response.body).others).toEqual(["event: error"]);
  });

  test("say the same on two instances", async () => {
    await using other = await startChaos();
    const cut = await streamed("fault:same-text+rst-after@3");
    const rest = await chat(other, { model: "fault:same-text" });
    expect(cut.content).toBe("word0 word1 word2");
    expect(rest.content).toStartWith(cut.content);
    const own = await chat(other, { model: "fault:different-text" });
    expect(own.content).not.toStartWith("word0");
  });

  test("continue what was begun, with as much overlap as asked", async () => {
    const messages = [
      { role: "user", content: "Count." },
      { role: "assistant", content: "word0 word1 wo" },
    ];
    const model = "fault:same-text+prefix-continue";
    expect((await chat(chaos, { model, messages })).content).toBe("rd2 word3 word4");
    expect((await chat(chaos, { model: `${model}@5`, messages })).content).toBe("d1 word2 word3 word4");
  });

  test("report usage in their own ways", async () => {
    const usages = async (name: string) => {
      const asked = { model: `fault:${name}`, stream_options: { include_usage: true } };
      const { events } = await chat(chaos, asked, { stream: true });
      return events.filter((event) => event.includes('"usage":{')).map((event) => JSON.parse(event));
    };
    expect(await usages("usage-missing")).toEqual([]);
    expect(await usages("usage-on-finish-chunk")).toMatchObject([{ choices: [{ finish_reason: "stop" }] }]);
    expect((await usages("usage-twice")).map(({ usage }) => usage.completion_tokens)).toEqual([1, 5]);
    expect(await usages("absurd-usage@-1")).toMatchObject([{ usage: { total_tokens: -1 } }]);
    expect((await whole("fault:absurd-usage@NaN")).response.text).toContain('"total_tokens":NaN');
  });
});

describe("refusals", () => {
  test("carry status, headers and body", async () => {
    const limited = await whole("fault:rate-limit@retry-after=5.5;x-ratelimit-reset-requests=6m0s");
    expect([limited.status, limited.error?.code]).toEqual([429, "rate_limit_exceeded"]);
    expect(limited.response.header("retry-after")).toBe("5.5");
    expect(limited.response.header("x-ratelimit-reset-requests")).toBe("6m0s");
    const moved = await whole("fault:redirect@307,http://169.254.169.254/latest");
    expect([moved.status, moved.response.header("location")]).toEqual([307, "http://169.254.169.254/latest"]);
    expect((await whole("fault:status-empty@599")).response).toMatchObject({
      status: 599,
      bodyLength: 0,
    });
    expect((await whole("fault:204")).status).toBe(204);
  });

  test("depend on what was asked", async () => {
    const model = "fault:max-tokens-too-large@100";
    expect((await chat(chaos, { model, max_tokens: 101 })).error?.message).toBe(
      "max_tokens is too large: 101. This model supports at most 100 completion tokens, whereas you provided 101.",
    );
    expect((await chat(chaos, { model, max_tokens: 100 })).status).toBe(200);
    const options = { stream_options: { include_usage: true } };
    expect((await chat(chaos, { model: "fault:reject-stream-options", ...options })).status).toBe(400);
    expect((await whole("fault:reject-stream-options")).status).toBe(200);
  });
});

test("TLS with a good certificate answers, and without one does not", async () => {
  const certificates = await makeCertificates();
  if (certificates === null) return;
  await using good = await startChaos({ tls: certificates.valid });
  await using expired = await startChaos({ tls: certificates.expired });
  const trusting = { tls: { ca: certificates.authority } };
  expect((await fetch(`${good.url}/models`, trusting)).status).toBe(200);
  expect(await complaintOf(fetch(`${expired.url}/models`, trusting))).toContain("certificate");
});

describe("every fault", () => {
  test.each(
    Object.keys(faults).flatMap(
      (name) =>
        [
          [name, true],
          [name, false],
        ] as const,
    ),
  )("%s ends in time (stream %p)", async (name, stream) => {
    const options = { stream, abort: { afterMs: 60 } } as const;
    await chat(chaos, { model: `fault:${name}` }, options);
    await chaos.ledger.settled(1_000);
    expect(lastAttempt().endedBy).not.toBeNull();
  });
});

async function complaintOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "",
    (error: Error) => error.message,
  );
}

/** The value at which a growing number stands still. */
async function plateau(read: () => number): Promise<number> {
  let last = -1;
  while (read() !== last) {
    last = read();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return last;
}
