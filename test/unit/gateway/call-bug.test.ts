import { expect, test } from "bun:test";
import { defaultErrors } from "../../../src/surfaces/index.ts";
import type { RequestContext } from "../../../src/http/request-context.ts";
import { handleCall, type Endpoint } from "../../../src/http/call.ts";
import { ResponseHead, type HttpResponse } from "../../../src/net/server/http-response.ts";
import { IncomingRequest } from "../../../src/net/server/incoming-request.ts";
import type { CallResult } from "../../../src/gateway/call-result.ts";
import type { Gateway } from "../../../src/gateway/gateway.ts";
import { LiveCalls } from "../../../src/gateway/admission/live-calls.ts";
import type { Snapshot } from "../../../src/gateway/snapshot.ts";
import type { Key } from "../../../src/keys/key.ts";
import { readChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { failure, isFailure } from "../../../src/operations/failure.ts";
import { HeaderLines } from "../../../src/net/message/header-lines.ts";
import { eventually } from "../../support/eventually.ts";
import { asResponse } from "../../support/http-answer.ts";

/** The services around a gateway that is broken in one place. */
class BrokenWorld {
  readonly answers: HttpResponse[] = [];
  readonly bugs: unknown[] = [];
  readonly calls = new LiveCalls();
  /** Statuses of calls that were let in and then given back. */
  readonly givenBack: number[] = [];

  constructor(serve: () => Promise<CallResult>, admit: () => unknown = () => ({ grant: { rateLimitStatus: null }, onRecord: null })) {
    const gateway = {
      ports: { nowMs: () => 0, dice: () => 0.5 },
      calls: this.calls,
      ledger: { precheck: () => null, admit },
      refused: (_: unknown, __: unknown, status: number) => void this.givenBack.push(status),
    } as unknown as Gateway;
    const route = { model: "m", tiers: [[{ deployment: { channel: { capabilities } } }]], size: 1 };
    const snapshot = { routes: new Map([["m", route]]), service: { inFlightMax: 10, earlyHeadersMs: 0 } } as unknown as Snapshot;
    const connection = {
      address: "127.0.0.1",
      respond: (_: IncomingRequest, answer: HttpResponse) => void this.answers.push(answer),
      sendContinue: () => {},
      pause: () => {},
      resume: () => {},
      nowMs: () => 0,
    };
    const request = new IncomingRequest({ method: "POST", target: "/", isHttp11: true }, new HeaderLines("", [], []), 0, connection);
    const onBug = (bug: unknown) => void this.bugs.push(bug);
    const services = { gateway, serve, pressure: () => calm, hasRoom: () => true, onBug, traces: () => null, wallMs: () => 0 };
    const context: RequestContext = {
      request,
      receiptId: "1",
      receiptName: "req_1",
      head: new ResponseHead("req_1"),
      snapshot,
      services,
      errors: defaultErrors,
      path: "/v1/chat/completions",
      pathModel: null,
    };
    handleCall(context, endpoint, key);
  }
}

const calm = { loopDelayMs: 0, memoryShare: 0 };
const capabilities = { operations: ["chat"], modelOperations: new Map() };
const key = { id: "k", models: null, operations: null, channels: null, splits: { audio: false, input: false } } as unknown as Key;
const ask = readChatRequest(new TextEncoder().encode('{"model":"m","messages":[{}]}'));
if (isFailure(ask)) throw new Error(ask.detail);
const endpoint: Endpoint = {
  operation: "chat",
  surface: null,
  displayName: "chats",
  rejectEarly: () => null,
  read: () => ({ ask, stream: false, bytes: 1, dispose: null }),
};
const bug = new Error("a bug");
const failed = {
  kind: "failed" as const,
  failure: failure("no_channel", "nobody"),
  retryAfterMs: null,
  channel: null,
  attempts: 0,
  clampedTo: null,
  voice: null,
};
const never = (): Promise<CallResult> => new Promise(() => {});
const thrown = (): never => {
  throw bug;
};

test.each<[string, () => BrokenWorld, number[]]>([
  ["before it is let in", () => new BrokenWorld(never, thrown), []],
  ["while it is let in", () => new BrokenWorld(never, () => Promise.reject(bug)), []],
  ["when it is to be served", () => new BrokenWorld(thrown), [500]],
  ["while it is served", () => new BrokenWorld(() => Promise.reject(bug)), [500]],
  ["when its failure is recorded", () => new BrokenWorld(() => Promise.resolve({ ...failed, recorded: () => Promise.reject(bug) })), [500]],
])("a call that meets a bug %s is told so once, ended and given back", async (_, make, givenBack) => {
  const world = make();
  await eventually("it is answered", () => world.answers.length > 0);
  expect(world.bugs).toEqual([bug]);
  expect(world.answers).toHaveLength(1);
  const response = asResponse(world.answers[0]!);
  expect(response.status).toBe(500);
  expect(await response.json()).toMatchObject({ error: { code: "internal_error", request_id: "req_1" } });
  expect(world.givenBack).toEqual(givenBack);
  expect(world.calls.size).toBe(0);
});
