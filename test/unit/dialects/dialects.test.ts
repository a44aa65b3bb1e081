import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Dialect, Codec } from "../../../src/dialects/dialect.ts";
import { dialects } from "../../../src/dialects/index.ts";
import type { ChatRequest } from "../../../src/operations/chat/chat-request.ts";
import type { Emission } from "../../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { readerOf, wholeOf } from "../../support/chat-answers.ts";
import { bytewise } from "../../support/cuts.ts";
import { recordedAnswer, recordedDialects, recordingsOf, type Recording } from "../../support/recordings.ts";

// Sweeps over every byte; no clock is judged here.
setDefaultTimeout(120_000);

/** What became of a stream: what was passed on, and how it ended. */
interface Played {
  readonly emissions: readonly Emission[];
  readonly failure: Failure | null;
}

function play(codec: Codec<ChatRequest>, recording: Recording, chunks: readonly Uint8Array[], hidesUsage = false): Played {
  const reader = readerOf(codec, recording.facts.choices, hidesUsage);
  const emissions: Emission[] = [];
  for (const chunk of [...chunks.filter(({ length }) => length > 0), null]) {
    const read = chunk === null ? reader.close() : reader.push(chunk);
    if (read instanceof Promise) throw new Error("a chat stream is read at once");
    if (isFailure(read)) return { emissions, failure: read };
    emissions.push(...read);
    if (reader.pending !== null) return { emissions, failure: reader.pending };
  }
  return { emissions, failure: null };
}

/** The bytes a client would get. */
function framesOf(emissions: readonly Emission[]): string {
  const frames = emissions.flatMap((emission) => (emission.kind === "skipped" || emission.frame === null ? [] : [emission.frame]));
  return Buffer.concat(frames).toString("latin1");
}

/** Cheap to compare, and frame by frame: which of them came together is not the point. */
function outline({ emissions, failure }: Played): string {
  const lines = emissions.flatMap((emission): readonly unknown[] => {
    if (!("frame" in emission)) return [emission];
    if (emission.kind !== "delta") return [{ ...emission, frame: framesOf([emission]) }];
    const { kind, output, text, finishes } = emission;
    return [{ kind, frame: framesOf([emission]), output, text, finishes }];
  });
  return JSON.stringify([lines, failure]);
}

function ends(emissions: readonly Emission[]): readonly Extract<Emission, { kind: "end" }>[] {
  return emissions.filter((emission) => emission.kind === "end");
}

const done = "data: [DONE]\n\n";

/** Only such frames, so that nothing has to be said otherwise. */
function isCanonical({ bytes }: Recording): boolean {
  return /^(data: [^\r\n]+\n\n)*$/.test(Buffer.from(bytes).toString("latin1"));
}

/** The dialects whose answers pass as they are to clients of chat completions. The others have tests of their own. */
const recorded = recordedDialects();

test("every recording has a dialect", () => {
  expect(recorded).toContain("openai");
  for (const name of recorded) {
    expect(dialects.get(name)?.chat).toBeDefined();
    const names = recordingsOf(name).map((recording) => recording.name);
    expect(names).toContain("plain");
    expect(names).toContain("tools");
    expect(names.length).toBeGreaterThanOrEqual(8);
  }
});

test("every dialect is listed under its own name", () => {
  for (const [name, dialect] of dialects) expect(dialect.name).toBe(name);
});

const speaking = [...dialects.values()].flatMap((dialect: Dialect) =>
  dialect.chat === undefined || !recorded.includes(dialect.name) ? [] : [[dialect.name, dialect.chat] as const],
);

describe.each(speaking)("the dialect %s", (dialect, codec) => {
  const recordings = recordingsOf(dialect);

  describe.each(recordings.map((recording) => [recording.name, recording] as const))("given the recording %s", (_, recording) => {
    const { bytes, facts, wholeFrom } = recording;
    const uncut = play(codec, recording, [bytes]);

    test(`understands it: ${facts.about}`, () => {
      const { emissions, failure } = uncut;
      const deltas = emissions.filter((emission) => emission.kind === "delta");
      expect(deltas.find(({ output }) => output !== null)?.output ?? null).toBe(facts.output);
      expect(textsIn(framesOf(emissions), facts.choices)).toEqual([...facts.text]);
      expect(deltas.map(({ text }) => text).join("").length).toBe(facts.text.join("").length);
      expect(emissions.filter(({ kind }) => kind === "skipped").length).toBe(facts.skipped ?? 0);
      expect(failure?.kind ?? null).toBe(facts.fails ?? null);
      if (facts.fails !== undefined) {
        expect(ends(emissions)).toEqual([]);
        return;
      }
      expect(ends(emissions).length).toBe(1);
      expect(emissions.at(-1)).toMatchObject({ kind: "end", finish: facts.finish });
      const usage = emissions.findLast((emission) => emission.kind === "usage")?.usage ?? null;
      if (facts.usage === null) expect(usage).toBeNull();
      else expect(usage).toMatchObject(facts.usage ?? {});
    });

    test("passes nothing on but canonical frames, and ends with one end mark or none", () => {
      const sent = framesOf(uncut.emissions);
      expect(sent).toMatch(/^(data: [^\r\n]+\n\n)*$/);
      expect(sent.split(done).length - 1).toBe(facts.fails === undefined ? 1 : 0);
      expect(sent.endsWith(done)).toBe(facts.fails === undefined);
      if (!isCanonical(recording) || facts.fails !== undefined || facts.skipped !== undefined) return;
      const original = Buffer.from(bytes).toString("latin1");
      const end = original.indexOf(done);
      expect(sent).toBe((end < 0 ? original : original.slice(0, end)) + done);
    });

    if (facts.sends !== undefined) {
      test(`sends what it sends of ${facts.sends}`, () => {
        const other = recordings.find(({ name }) => name === facts.sends)!;
        expect(framesOf(uncut.emissions)).toBe(framesOf(play(codec, other, [other.bytes]).emissions));
      });
    }

    test("hides the usage chunk that only we asked for, and nothing else", () => {
      const hidden = play(codec, recording, [bytes], true);
      const visible = chunksIn(framesOf(uncut.emissions)).filter(({ chunk }) => !(chunk?.usage && !chunk.choices?.length));
      expect(framesOf(hidden.emissions)).toBe(visible.map(({ frame }) => frame).join(""));
      const reported = (all: readonly Emission[]): unknown[] =>
        all.flatMap((emission) => (emission.kind === "usage" ? [emission.usage] : []));
      expect(reported(hidden.emissions)).toEqual(reported(uncut.emissions));
      expect(hidden.failure).toEqual(uncut.failure);
    });

    test("makes the same of it when it is cut in two anywhere, or comes byte by byte", () => {
      const expected = outline(uncut);
      for (let at = 0; at <= bytes.length; at += 1) {
        const played = outline(play(codec, recording, [bytes.subarray(0, at), bytes.subarray(at)]));
        if (played !== expected) throw new Error(`cut at byte ${at} it becomes ${played}, not ${expected}`);
      }
      expect(outline(play(codec, recording, bytewise(bytes)))).toBe(expected);
    });

    test("is complete if the body ends after its terminator, and a failure if it ends anywhere before", () => {
      const sent = framesOf(uncut.emissions);
      for (let length = 0; length <= bytes.length; length += 1) {
        const { emissions, failure } = play(codec, recording, [bytes.subarray(0, length)]);
        const whole = length >= wholeFrom;
        if ((failure === null) !== whole || ends(emissions).length !== (whole ? 1 : 0))
          throw new Error(`ended at byte ${length}, it has ${ends(emissions).length} ends, and the failure ${failure?.kind}`);
        const beginning = framesOf(emissions);
        if (!whole) {
          // Only what was sent, in the order it was sent: nothing is invented to round it off.
          if (!sent.startsWith(beginning) || beginning.includes(done))
            throw new Error(`ended at byte ${length}, what was sent is no beginning: ${beginning}`);
          continue;
        }
        const body = beginning.slice(0, -done.length);
        if (!beginning.endsWith(done) || !sent.startsWith(body))
          throw new Error(`ended at byte ${length}, what was sent is no whole stream: ${beginning}`);
        if ((ends(emissions)[0]?.finish ?? null) !== (facts.finish ?? null))
          throw new Error(`ended at byte ${length}, the reason is ${ends(emissions)[0]?.finish}`);
      }
    });

    test("calls a cut before the first output a failure that may be tried elsewhere, and later an interruption", () => {
      for (let length = 0; length < Math.min(bytes.length, wholeFrom); length += 1) {
        const { emissions, failure } = play(codec, recording, [bytes.subarray(0, length)]);
        const spoke = emissions.some((emission) => emission.kind === "delta" && emission.output !== null);
        if ((failure?.kind === "interrupted") !== spoke)
          throw new Error(`ended at byte ${length}, ${spoke ? "after" : "before"} output, it is called ${failure?.kind}`);
        if (failure?.blame !== "channel") throw new Error(`ended at byte ${length}, ${failure?.blame} is blamed`);
      }
    });
  });

  describe("given an answer that is not streamed", () => {
    const answer = recordedAnswer(dialect);
    const end = new TextDecoder("latin1").decode(answer).trimEnd().length;

    test("reads it", () => {
      expect(wholeOf(codec, answer)).toMatchObject({ kind: "whole", finish: "stop", usage: { promptTokens: 11, completionTokens: 4 } });
    });

    test("calls it a failure when it ends at any byte before its last", () => {
      for (let length = 0; length < end; length += 1) {
        const read = wholeOf(codec, answer.subarray(0, length));
        if (!isFailure(read)) throw new Error(`ended at byte ${length} it is called whole`);
        if (read.kind !== "bad_response") throw new Error(`ended at byte ${length} it is called ${read.kind}`);
      }
      expect(isFailure(wholeOf(codec, answer.subarray(0, end)))).toBe(false);
    });
  });
});

interface Chunk {
  readonly choices?: readonly { readonly index: number; readonly delta?: { readonly content?: unknown } }[] | null;
  readonly usage?: object | null;
}

/** What a client reads: each frame, and the chunk in it unless it is the end mark. */
function chunksIn(frames: string): readonly { readonly frame: string; readonly chunk: Chunk | null }[] {
  return frames.split(/(?<=\n\n)/).flatMap((frame) => {
    if (frame === "") return [];
    const payload = Buffer.from(frame, "latin1").toString().slice("data: ".length);
    return [{ frame, chunk: frame === done ? null : (JSON.parse(payload) as Chunk) }];
  });
}

/** The text of each choice as a client would put it together. */
function textsIn(frames: string, choices: number): readonly string[] {
  const texts = Array.from({ length: choices }, () => "");
  for (const { index, delta } of chunksIn(frames).flatMap(({ chunk }) => chunk?.choices ?? [])) {
    if (typeof delta?.content === "string") texts[index] += delta.content;
  }
  return texts;
}
