// Needs: quiet. It mostly waits for upstreams that stall.
import { afterAll, expect, test } from "bun:test";
import fc from "fast-check";
import { accessLine, noUploadLeft, recording, speak, transcribe, type AudioReply } from "../support/audio-call.ts";
import { expectSame, expectUpload, transcriptIn } from "../support/audio-outcome.ts";
import type { Attempt } from "../support/chaos/ledger.ts";
import { audioOf } from "../support/chaos/spoken.ts";
import { prepareTakes } from "../support/chaos/take.ts";
import { numRuns } from "../support/properties.ts";
import type { RawOptions } from "../support/raw-request.ts";
import { Stage, type Group, type Row } from "../support/stage.ts";

/**
 * Every fault with every other, for speech and transcripts, on one channel and on two, for clients that stay and clients that
 * leave. What comes of a call is not asked here, only that the universal invariants hold, that what the client heard or read
 * is of one attempt, that it is never taken for whole where it is not, and that no upload is left on the disk.
 */
const stage = new Stage({
  config: { routing: { deadlines: { stream: "1500ms", whole: "1500ms" } }, server: { early_headers: "150ms", keep_alive: "90ms" } },
});

const timeouts = { connect: "250ms", first_byte: "350ms", first_content: "350ms", idle: "250ms", progress: "400ms", total: "2s" };

/** Cases that run at the same time, and how many there are in all. */
const atOnce = 30;
const cases = numRuns(60);

const behaviours = [
  "silent",
  "close-before-headers",
  "rst-before-headers",
  "rst-mid-headers",
  "rst-mid-body",
  "fin-mid-body",
  "rst-before-content",
  "rst-after@1",
  "rst-after@3",
  "rst-after@last",
  "fin-chunked-after@2",
  "fin-close-delimited-after@3",
  "close-delimited",
  "close-on-reuse@rst",
  "slow-headers@5",
  "hang-after-headers",
  "hang-after@2",
  "hang-after@last",
  "cl-and-te",
  "bad-chunk-size@2",
  "garbage",
  "http09",
  "huge-headers@70000",
  "interim-103",
  "unsolicited-101",
  "gzip",
  "false-gzip",
  "unknown-encoding",
  "end-after@2",
  "empty-stream",
  "byte-by-byte",
  "one-packet",
  "error-in-200",
  "error-in-200@400",
  "html-200",
  "empty-200",
  "204",
  "invalid-json",
  "sse-error-first",
  "sse-error-after@2",
  "sse-for-json",
  "json-for-sse",
  "content-type@text/html",
  "content-type@application/json",
  "audio-empty",
  "audio-garbage",
  "audio-text",
  "status@400",
  "status@401",
  "status@413",
  "status@503",
  "redirect@307,http://127.0.0.1:9/",
  "rate-limit@retry-after=1",
  "leak-key@500",
  "upload-rst@20000",
  "upload-close@20000",
  "upload-stall@20000,600",
  "upload-status@20000,401",
  "upload-status-rst@20000,503",
].map((fault) => `fault:${fault}`);

const clients: fc.Arbitrary<Pick<RawOptions, "abort">> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: fc.constantFrom<Pick<RawOptions, "abort">>({ abort: "after-request" }, { abort: "after-head" }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 500 }).map((afterMs) => ({ abort: { afterMs } })) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 4_000 }).map((afterBodyBytes) => ({ abort: { afterBodyBytes } })) },
);

const scripts = fc.record({
  faults: fc.array(fc.oneof({ weight: 1, arbitrary: fc.constant("ok") }, { weight: 4, arbitrary: fc.constantFrom(...behaviours) }), {
    minLength: 1,
    maxLength: 2,
  }),
  operation: fc.constantFrom("speech", "transcription", "transcription stream"),
  format: fc.constantFrom("wav" as const, "opus" as const),
  client: clients,
});

const pools = ([1, 2] as const).map((size) => Array.from({ length: atOnce }, () => stage.group({ size, channels: { timeouts } })));
const turns = [0, 0];

function nextGroup(size: number): Group {
  const turn = turns[size - 1]!;
  turns[size - 1] = turn + 1;
  return pools[size - 1]![turn % atOnce]!;
}

const file = recording(1_300_000);

afterAll(() => {
  console.log(`ends seen: ${[...seen].map(([end, times]) => `${end} ${times}`).join(", ")}`);
});

/** So that a run in which nothing was ever answered, cut or refused is seen. */
const seen = new Map<string, number>();

function note(end: string): void {
  seen.set(end, (seen.get(end) ?? 0) + 1);
}

function attemptsOf(row: Row, reply: AudioReply): readonly Attempt[] {
  return row.upstreams.flatMap(({ ledger }) => ledger.ofCall(reply.call));
}

/** What was heard is all of one attempt's audio if it ended well, and else the beginning of it. */
function checkSpeech(row: Row, reply: AudioReply, format: "wav" | "opus"): void {
  if (reply.status !== 200) return note(reply.status === 0 ? "no answer" : "refused");
  const { endedCleanly } = reply.response;
  const attempts = attemptsOf(row, reply);
  const wholes = attempts.map(({ id }) => Buffer.from(audioOf(format, id, null)));
  const speaker = wholes.find((whole) => whole.subarray(0, reply.body.length).equals(reply.body));
  if (speaker === undefined && (endedCleanly || !attempts.some((attempt) => endsInError(reply.body, attempt))))
    throw new Error(`${reply.body.length} bytes are the beginning of no attempt`);
  if (endedCleanly) expectSame(reply.body, speaker!);
  note(endedCleanly ? "heard" : "cut");
}

/** An error among bytes is no error, but bytes: they leave as they came. */
function endsInError(heard: Uint8Array, { behaviour, audioSent }: Attempt): boolean {
  const audio = Buffer.concat(audioSent);
  const rest = Buffer.from(heard.subarray(audio.length)).toString("latin1");
  const isOwn = audio.equals(heard.subarray(0, audio.length)) && 'data: {"error"'.startsWith(rest.slice(0, 14));
  return behaviour.startsWith("fault:sse-error-after") && isOwn;
}

function checkTranscript(row: Row, reply: AudioReply, stream: boolean): void {
  if (reply.status !== 200) return note(reply.status === 0 ? "no answer" : "refused");
  const { endedCleanly } = reply.response;
  if (!endedCleanly && !stream) return note("cut");
  const isWhole = stream ? reply.done && reply.error === null : endedCleanly;
  // Half an event at the end of a stream that the client left is no event.
  const text = transcriptIn(reply, "json", stream);
  const said = attemptsOf(row, reply).map(({ tokensSent }) => tokensSent.join(""));
  // A call that met nobody but channels that rest is told so after the head has left.
  const matches = text === "" && !isWhole ? true : said.some((each) => (isWhole ? each === text : each.startsWith(text)));
  if (!matches) throw new Error(`${JSON.stringify(text)} was said by nobody: ${JSON.stringify(said)}`);
  if (stream && endedCleanly && !isWhole) expect(reply.error).not.toBeNull();
  note(isWhole ? "read" : "interrupted");
}

test(
  `whatever ${cases} upstreams and clients do together, the universal invariants hold for audio`,
  async () => {
    await Promise.all((["wav", "opus", "pcm"] as const).map(prepareTakes));
    let played = 0;
    const property = fc.asyncProperty(fc.array(scripts, { minLength: atOnce, maxLength: atOnce }), async (batch) => {
      played += batch.length;
      const groups = batch.map(({ faults }) => nextGroup(faults.length));
      await stage.playAll(
        groups,
        async (row, index) => {
          const { faults, operation, format, client } = batch[index]!;
          for (const [at, upstream] of row.upstreams.entries()) upstream.behaviour = faults[at]!;
          const stream = operation === "transcription stream";
          const what = `${operation} in ${format} with ${faults.join(" and ")} for ${JSON.stringify(client)}`;
          try {
            const reply = await (operation === "speech" ? speak(row, { format, ...client }) : transcribe(row, { stream, file, ...client }));
            if (operation === "speech") checkSpeech(row, reply, format);
            else checkTranscript(row, reply, stream);
            // Whoever stayed got a status, or a reset; and never a whole upload that was not whole.
            if (client.abort === undefined) {
              expect(reply.status >= 200 || reply.response.wasReset).toBe(true);
              if (operation !== "speech") expect(reply.response.endedCleanly).toBe(true);
              await accessLine(row, reply);
            }
            for (const attempt of attemptsOf(row, reply)) if (attempt.upload?.whole === true) expectUpload(attempt, file);
          } catch (error) {
            throw new Error(`${what}: ${String(error)}`, { cause: error });
          }
        },
        // A request whose kept connection may have gone stale is sent again without counting, once for each upstream.
        { attemptsMax: 5 },
      );
      await noUploadLeft(stage.gateway);
    });
    await fc.assert(property, { numRuns: Math.max(1, Math.round(cases / atOnce)), endOnFailure: true });
    expect(played).toBeGreaterThanOrEqual(cases);
    const times = (...ends: readonly string[]) => ends.reduce((sum, end) => sum + (seen.get(end) ?? 0), 0);
    expect([times("heard", "read") > 0, times("cut", "interrupted") > 0, times("refused") > 0]).toEqual([true, true, true]);
  },
  Math.max(60_000, cases * 500),
);
