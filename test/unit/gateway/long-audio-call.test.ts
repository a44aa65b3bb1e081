import { describe, expect, test } from "bun:test";
import { dialects } from "../../../src/dialects/index.ts";
import { loadConfig } from "../../../src/config/load.ts";
import { buildSnapshot } from "../../../src/config/snapshot.ts";
import { UpstreamState } from "../../../src/gateway/upstream-state/upstream-state.ts";
import type { Call } from "../../../src/gateway/call.ts";
import { Cancellation } from "../../../src/gateway/cancellation.ts";
import type { CallResult } from "../../../src/gateway/call-result.ts";
import { dispatch } from "../../../src/gateway/dispatch.ts";
import { Gateway } from "../../../src/gateway/gateway.ts";
import { planParts } from "../../../src/gateway/long-transcription/plan.ts";
import type { AudioPart, Exchange, SplitFailure, Ports, Reply } from "../../../src/gateway/ports.ts";
import { plainLedger } from "../../support/ledger.ts";
import type { CallRecord } from "../../../src/gateway/settlement/record.ts";
import { TranscoderLost } from "../../../src/media/audio.ts";
import { failure, isFailure, type Failure } from "../../../src/operations/failure.ts";
import { readSpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import { FakeTranscoder, noTools, toolsOf } from "../../support/speech-world.ts";
import { ask, bytesOf, formFile } from "../../support/transcription-world.ts";

interface Limits {
  readonly limit?: string;
  readonly seconds?: number;
  readonly provider?: string;
}

/** A call for a recording of 2 MiB, where one request may hold 1 MiB, on one channel for each of the limits. */
async function callFor(
  limits: readonly Limits[],
  fields: readonly (readonly [string, string])[] = [],
): Promise<Call & { readonly ask: TranscriptionRequest }> {
  const channels = limits.map(({ limit, seconds, provider }, index) => ({
    ...(provider === undefined ? {} : { provider }),
    name: `channel-${index}`,
    base_url: `http://127.0.0.1:9/v${index}`,
    api_key: "sk-upstream-0123456789",
    models: ["ours"],
    capabilities: { ...(limit === undefined ? {} : { audio_limit: limit }), ...(seconds === undefined ? {} : { audio_seconds: seconds }) },
  }));
  const config = {
    keys: [{ name: "k", key: "sk-client-0123456789abcdef", long_audio: "split" }],
    server: { audio_limit: "1MiB" },
    channels,
  };
  const loaded = await loadConfig({ path: null, text: JSON.stringify(config), env: {}, nofile: 1024 });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const snapshot = buildSnapshot(loaded.settings, new Map());
  const wanted = ask(fields, {
    file: formFile(Buffer.concat([bytesOf("RIFF\u0024\u0000\u0000\u0000WAVE"), new Uint8Array(2 * 1024 ** 2)])),
  });
  const facts = {
    id: "id",
    keyId: "k",
    operation: "transcription",
    model: "ours",
    stream: wanted.stream,
    bytesIn: 1,
    startedMs: 0,
    waitedMs: 0,
    admission: null,
  } as const;
  return {
    facts,
    key: loaded.settings.keys[0]!.key,
    ask: wanted,
    route: snapshot.routes.get("ours")!,
    split: true,
    snapshot,
    headers: { header: () => null },
    cancellation: new Cancellation(),
    surface: null,
  };
}

interface World {
  readonly gateway: Gateway;
  readonly records: CallRecord[];
  /** How many parts were given, and how many are not disposed of. */
  readonly parts: { given: number; held: number };
  stopped: boolean;
}

function world(
  cuts: readonly (AudioPart | SplitFailure)[] | null,
  send: Ports["send"] = () => ({ reply: Promise.resolve(reply({ text: "said" })), abort: () => {} }),
  tools: Ports["tools"] = noTools,
): World {
  const records: CallRecord[] = [];
  const parts = { given: 0, held: 0 };
  const made: { world?: World } = {};
  let nowMs = 0;
  const ports: Ports = {
    send,
    nowMs: () => ++nowMs,
    dice: () => 0,
    after: () => () => {},
    timers: { set: () => {}, clear: () => {} },
    tools,
    ...(cuts !== null && {
      splitAudio: () => {
        const left = [...cuts];
        return {
          next() {
            const next = left.shift() ?? null;
            if (next?.kind !== "part") return Promise.resolve(next);
            parts.given += 1;
            parts.held += 1;
            return Promise.resolve({ ...next, dispose: () => void (parts.held -= 1) });
          },
          stop() {
            made.world!.stopped = true;
          },
        };
      },
    }),
  };
  made.world = {
    gateway: new Gateway(
      ports,
      new UpstreamState(ports, () => {}),
      dialects,
      plainLedger((record) => records.push(record)),
    ),
    records,
    parts,
    stopped: false,
  };
  return made.world;
}

function part(start: number, end: number): AudioPart {
  return { kind: "part", start, end, overlap: 0, goesOn: false, file: formFile(), dispose: () => {} };
}

function reply(answer: object, status = 200): Reply {
  return replyOf(bytesOf(JSON.stringify(answer)), "application/json", status);
}

function replyOf(body: Uint8Array, type: string, status = 200): Reply {
  let left: Uint8Array | null = body;
  return {
    kind: "reply",
    status,
    header: (name) => (name === "content-type" ? type : null),
    bytes: () => Promise.resolve(body),
    next: () => {
      const next = left;
      left = null;
      return Promise.resolve(next);
    },
    cancel: () => {},
  };
}

function failed(answer: CallResult): Failure {
  if (answer.kind !== "failed") throw new Error(answer.kind);
  void answer.recorded(answer.failure.status ?? 500);
  return answer.failure;
}

describe("a part is as long as", () => {
  test.each([
    ["one request may hold", [{ limit: "100MiB" }], 32.11],
    ["the smallest file that a channel takes", [{ limit: "640KiB" }, {}], 20.07],
    ["the shortest recording that a channel takes", [{ seconds: 12 }, { limit: "640KiB" }], 12],
  ] as const)("%s", async (_, limits, seconds) => {
    const call = await callFor(limits);
    expect(planParts(call, call.ask)!.secondsMax).toBeCloseTo(seconds, 1);
  });

  test("five minutes, where everybody would take more", async () => {
    const call = await callFor([{ seconds: 1000 }, {}]);
    const roomy = { ...call, snapshot: { ...call.snapshot, service: { ...call.snapshot.service, audioBytesMax: 25 * 1024 ** 2 } } };
    expect(planParts(roomy, call.ask)!.secondsMax).toBe(300);
  });

  test("makes sense: who takes less is not asked, and nobody is where nobody takes more", async () => {
    const call = await callFor([{ seconds: 2 }, { seconds: 30 }]);
    const plan = planParts(call, call.ask)!;
    expect(plan.route.tiers.flat().map(({ deployment }) => deployment.channel.name)).toEqual(["channel-1"]);
    expect(plan.secondsMax).toBe(30);
    const hopeless = await callFor([{ seconds: 2 }, { limit: "4KiB" }]);
    expect(planParts(hopeless, hopeless.ask)).toBeNull();
  });
});

describe("the refusal of what is too large stands, and says why,", () => {
  test.each([
    [
      "where no codec is installed",
      [{ kind: "absent", missing: "the program that cuts recordings" }] as const,
      "the program that cuts recordings is not installed",
    ],
    ["where nothing can cut", null, "cannot cut"],
  ])("%s", async (_, cuts, why) => {
    const { gateway, records } = world(cuts);
    const refusal = failed(await dispatch(await callFor([{}]), gateway));
    expect(refusal).toMatchObject({ kind: "invalid_request", status: 413, type: "server_error" });
    expect(refusal.publicMessage).toStartWith("Maximum content size limit (1048576) exceeded (2097164 bytes read)");
    expect(refusal.publicMessage).toContain(why);
    expect(records).toMatchObject([{ state: "failed", status: 413, attempts: [] }]);
  });
});

test("a call in parts is recorded once, with the attempts and the usage of all of them", async () => {
  const answers = [
    { text: "one", usage: { type: "duration", seconds: 10 } },
    { text: "two", usage: { type: "duration", seconds: 20 } },
  ];
  const { gateway, records, parts } = world([part(0, 10), part(10, 30)], () => ({
    reply: Promise.resolve(reply(answers.shift()!)),
    abort: () => {},
  }));
  const answer = await dispatch(await callFor([{}]), gateway);
  expect(answer).toMatchObject({ kind: "whole", type: "application/json", attempts: 2, channel: "channel-0" });
  expect(records).toMatchObject([
    { state: "complete", status: 200, usage: { audioSeconds: 30 }, attempts: [{ outcome: "answered" }, { outcome: "answered" }] },
  ]);
  expect(parts).toEqual({ given: 2, held: 0 });
});

test("the fields that no part could be asked with are told, and so are log probabilities, which the joined text has not", async () => {
  const heard = { metadata: { duration: 10 }, results: { channels: [{ alternatives: [{ transcript: "said", words: [] }] }] } };
  const foreign = world([part(0, 10), part(10, 20)], () => ({ reply: Promise.resolve(reply(heard)), abort: () => {} }));
  const fields = [
    ["prompt", "Names: Ann"],
    ["temperature", "0.2"],
  ] as const;
  const answer = await dispatch(await callFor([{ provider: "deepgram" }], fields), foreign.gateway);
  expect(answer).toMatchObject({ kind: "whole", dropped: ["prompt", "temperature"] });
  const own = world([part(0, 10), part(10, 20)]);
  expect(await dispatch(await callFor([{}], [["include[]", "logprobs"]]), own.gateway)).toMatchObject({
    kind: "whole",
    dropped: ["include"],
  });
  expect(await dispatch(await callFor([{}]), world([part(0, 10)]).gateway)).toMatchObject({ dropped: [] });
});

test("a part that fails ends the others, for which nobody is blamed, and all parts are let go", async () => {
  let asked = 0;
  const { gateway, records, parts } = world([part(0, 10), part(10, 20), part(20, 30)], () => {
    const mine = ++asked;
    let abort = (): void => {};
    const aborted = new Promise<Failure>((resolve) => (abort = () => resolve(failure("client_gone", "aborted"))));
    return { reply: mine === 2 ? Promise.resolve(reply({ error: { message: "No." } }, 400)) : aborted, abort };
  });
  const call = await callFor([{}]);
  expect(failed(await dispatch(call, gateway))).toMatchObject({ kind: "invalid_request" });
  expect(records).toHaveLength(1);
  const outcomes = records[0]!.attempts.map(({ outcome }) => outcome);
  expect(outcomes.filter((outcome) => outcome === "failed")).toHaveLength(1);
  expect(outcomes.filter((outcome) => outcome === "abandoned").length).toBe(outcomes.length - 1);
  expect(parts.held).toBe(0);
});

test("a client that has left already is not served", async () => {
  const call = await callFor([{}]);
  call.cancellation.cancel(failure("client_gone", "the client left"));
  const made = world([part(0, 10)]);
  expect(failed(await dispatch(call, made.gateway)).kind).toBe("client_gone");
  expect(made.stopped).toBe(true);
  expect(made.parts.held).toBe(0);
  expect(made.records).toMatchObject([{ state: "abandoned" }]);
});

test("a bug in a part is a bug of the call, and leaves nothing behind", async () => {
  const made = world([part(0, 10), part(10, 20)], () => {
    throw new Error("a bug");
  });
  const call = await callFor([{}]);
  const thrown: unknown = await dispatch(call, made.gateway).catch((error: unknown) => error);
  expect(thrown).toEqual(new Error("a bug"));
  expect(made.stopped).toBe(true);
  expect(made.parts.held).toBe(0);
});

test("four parts are under way at a time, and the next begins when any of them is done", async () => {
  const open: (() => void)[] = [];
  const { gateway, parts } = world(
    Array.from({ length: 7 }, (_, index) => part(index * 10, index * 10 + 10)),
    () => ({ reply: new Promise((resolve) => open.push(() => resolve(reply({ text: "said" })))), abort: () => {} }),
  );
  const answering = dispatch(await callFor([{}]), gateway);
  await settled();
  expect([open.length, parts.held]).toEqual([4, 4]);
  // The last, not the first.
  open[3]!();
  await settled();
  expect([open.length, parts.held]).toEqual([5, 4]);
  for (let index = 0; index < 7; index++) {
    open[index]!();
    await settled();
  }
  expect(await answering).toMatchObject({ kind: "whole", attempts: 7 });
  expect(parts).toEqual({ given: 7, held: 0 });
});

describe("a long text whose transcoder is lost", () => {
  const lost = (): Promise<never> => Promise.reject(new TranscoderLost("the worker ended"));

  async function spoken(tools: Ports["tools"]): Promise<{ readonly answer: CallResult; readonly records: readonly CallRecord[] }> {
    const asked = readSpeechRequest(bytesOf(JSON.stringify({ model: "ours", voice: "alloy", input: "Hello." })), { charactersMax: 10 });
    if (isFailure(asked)) throw new Error(asked.detail);
    const call = await callFor([{}]);
    const samples = new Uint8Array(Int16Array.from({ length: 24_000 }, (_, at) => Math.round(8_000 * Math.sin(at / 9))).buffer);
    const send = (): Exchange => ({ reply: Promise.resolve(replyOf(samples, "audio/pcm")), abort: () => {} });
    const { gateway, records } = world(null, send, tools);
    const answer = await dispatch({ ...call, ask: asked, facts: { ...call.facts, operation: "speech" } }, gateway);
    return { answer, records };
  }

  test("before it gave anything has met a passing trouble of the gateway, and no bug", async () => {
    const { answer, records } = await spoken({ transcoder: lost });
    expect(failed(answer)).toMatchObject({ kind: "saturated", blame: "gateway", scope: "request" });
    expect(records).toMatchObject([{ state: "failed", failure: { kind: "saturated" } }]);
  });

  test.each(["push", "end"] as const)("later has met the same (%s)", async (step) => {
    const transcoder = new FakeTranscoder();
    transcoder[step] = lost;
    const { answer, records } = await spoken(toolsOf(transcoder));
    if (answer.kind !== "stream") throw new Error(answer.kind);
    let part: Uint8Array | Failure | null;
    do part = await answer.source.next();
    while (part instanceof Uint8Array);
    expect(part).toMatchObject({ kind: "saturated", blame: "gateway" });
    expect(records).toMatchObject([{ state: "interrupted", failure: { kind: "saturated" } }]);
  });

  test("with audio that cannot be encoded has met a bug", async () => {
    const { answer } = await spoken({ transcoder: () => Promise.reject(new Error("a bug")) });
    expect(failed(answer)).toMatchObject({ kind: "internal" });
  });
});

/** Everything that waits for nothing outside has happened. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}
