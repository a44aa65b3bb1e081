import { describe, expect, test } from "bun:test";
import type { ExpectedSteps, NextStep, UpstreamRequest } from "../../../src/dialects/dialect.ts";
import { explain } from "../../../src/dialects/errors/explain.ts";
import { takeSteps, type SteppedExchange } from "../../../src/gateway/attempt/steps.ts";
import type { Reply } from "../../../src/gateway/ports.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import { failure, type Failure } from "../../../src/operations/failure.ts";
import { bytesOf, textOf } from "../../support/transcription-world.ts";

function requestTo(url: string): UpstreamRequest {
  return { method: "GET", url, headers: {}, body: null };
}

function replyOf(status: number, body: string): Reply {
  return {
    kind: "reply",
    status,
    header: () => null,
    bytes: () => bytesOf(body),
    next: () => Promise.resolve(null),
    cancel: () => {},
  };
}

const whole = (text: string): WholeAnswer => ({ kind: "whole", body: bytesOf(text), type: "text/plain", usage: null, finish: null });

/** Answers `go URL MS`, `done TEXT`, anything else is a failure. */
const scripted: ExpectedSteps = {
  kind: "steps",
  read(body) {
    const [word, rest = "", ms = "0"] = textOf(body).split(" ");
    if (word === "go") return next(rest, Number(ms));
    return word === "done" ? whole(rest) : failure("bad_response", "what is this");
  },
};

function next(url: string, afterMs: number, answer = scripted): NextStep {
  return { kind: "next", request: requestTo(url), afterMs, answer };
}

interface World {
  readonly steps: SteppedExchange;
  readonly sent: string[];
  readonly waits: number[];
  aborted: number;
  /** Ends the wait that is going on. */
  wake(): void;
}

/** `hangs`: a request that is never answered, until it is aborted. */
function world(answers: Readonly<Record<string, Reply | Failure | "hangs">>, answer = scripted): World {
  const sent: string[] = [];
  const waits: number[] = [];
  const made = { aborted: 0, wake: (): void => {} };
  const steps = takeSteps(requestTo("first"), answer, {
    send: ({ url }) => {
      sent.push(url);
      const found = answers[url]!;
      const { promise, resolve } = Promise.withResolvers<Reply | Failure>();
      if (found !== "hangs") resolve(found);
      const abort = (): void => {
        made.aborted += 1;
        resolve(failure("disconnected", "aborted"));
      };
      return { reply: promise, abort, isUnsent: found === "hangs" };
    },
    after: (ms, then) => {
      waits.push(ms);
      made.wake = then;
      return () => {};
    },
    explain,
    bytesMax: 1000,
    progress: { headArrived: () => {}, bytesArrived: () => {} },
  });
  return Object.assign(made, { steps, sent, waits });
}

async function until(holds: () => boolean): Promise<void> {
  for (let turns = 0; !holds(); turns++) {
    if (turns > 1000) throw new Error("it never happened");
    await Promise.resolve();
  }
}

describe("an answer that takes several requests", () => {
  test("is unsent while its first request is, and not while a later one is", async () => {
    expect(world({ first: "hangs" }).steps.isUnsent).toBe(true);
    const at = world({ first: replyOf(200, "go second 0"), second: "hangs" });
    await until(() => at.sent.length === 2);
    expect(at.steps.isUnsent).toBe(false);
  });

  test("is that of the last one, each sent when the one before was answered and its wait is over", async () => {
    const at = world({ first: replyOf(200, "go second 0"), second: replyOf(201, "go third 700"), third: replyOf(200, "done yes") });
    await until(() => at.waits.length === 1);
    expect(at.sent).toEqual(["first", "second"]);
    at.wake();
    expect(await at.steps.outcome).toEqual(whole("yes"));
    expect([at.sent, at.waits]).toEqual([["first", "second", "third"], [700]]);
  });

  test("is a failure if one of them is refused, breaks or makes no sense", async () => {
    expect(await world({ first: replyOf(401, "") }).steps.outcome).toMatchObject({ kind: "unauthorized" });
    expect(await world({ first: failure("unreachable", "x") }).steps.outcome).toMatchObject({ kind: "unreachable" });
    const broken = world({ first: replyOf(200, "go second 0"), second: replyOf(200, "?") });
    expect(await broken.steps.outcome).toMatchObject({ kind: "bad_response" });
    // A failed exchange keeps no connection.
    expect(broken.aborted).toBe(1);
  });

  test("comes all the same if the dialect has another request after a failed one", async () => {
    let left = 2;
    const patient: ExpectedSteps = {
      ...scripted,
      retry: (cause) => (left-- > 0 && cause.status === 503 ? next("first", 0, patient) : null),
    };
    const at = world({ first: replyOf(503, "") }, patient);
    expect(await at.steps.outcome).toMatchObject({ kind: "overloaded" });
    expect(at.sent).toEqual(["first", "first", "first"]);
  });
});

describe("a series of requests that is aborted", () => {
  test("closes the connection of the request on the network, and asks nothing more", async () => {
    const eager: ExpectedSteps = { ...scripted, retry: () => next("second", 0) };
    const at = world({ first: "hangs", second: replyOf(200, "done late") }, eager);
    await until(() => at.sent.length === 1);
    at.steps.abort();
    expect(await at.steps.outcome).toMatchObject({ kind: "client_gone" });
    expect([at.aborted, at.sent]).toEqual([1, ["first"]]);
  });

  test("does not wait for the next one to be due", async () => {
    const at = world({ first: replyOf(200, "go second 60000"), second: replyOf(200, "done late") });
    await until(() => at.waits.length === 1);
    at.steps.abort();
    expect(await at.steps.outcome).toMatchObject({ kind: "client_gone" });
    expect(at.sent).toEqual(["first"]);
  });
});
