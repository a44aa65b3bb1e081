import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import type { StreamPart } from "../../src/operations/conversation/answer-parts.ts";
import type { Part } from "../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { collectStream, type CollectedStream } from "../support/collected-stream.ts";
import { providerReaders, type ProviderReader } from "../support/provider-readers.ts";
import { fileOf, recordings, type Recording } from "./list.ts";

/** A stream of so many bytes is cut everywhere in a moment; the work grows with the square. Longer ones are cut into single bytes. */
const shortBytes = 2048;

/** `npm run test:recordings` downloads them. */
const present = recordings.filter((recording) => existsSync(fileOf(recording)));
const named = (those: readonly Recording[]): readonly (readonly [string, Recording])[] =>
  those.map((recording) => [recording.path.slice(recording.path.lastIndexOf("/") + 1), recording] as const);
const isWhole = ({ path }: Recording): boolean => path.endsWith(".json");

function bodyOf(recording: Recording, reader: ProviderReader): Uint8Array {
  const bytes = new Uint8Array(readFileSync(fileOf(recording)));
  if (!recording.path.endsWith(".chunks.txt")) return bytes;
  return reader.framed(
    new TextDecoder()
      .decode(bytes)
      .split("\n")
      .filter((line) => line.trim() !== ""),
  );
}

function callsIn(parts: readonly (Part | StreamPart)[]): number {
  return parts.filter(({ kind }) => kind === "tool_call").length;
}

function textIn(parts: readonly (Part | StreamPart)[]): number {
  return parts.reduce((sum, part) => sum + (part.kind === "text" ? part.text.length : 0), 0);
}

function endOf({ emissions }: CollectedStream): string | null | undefined {
  const end = emissions.find((emission) => emission.kind === "end");
  return end?.kind === "end" ? end.finish : undefined;
}

describe("a recorded answer of a provider", () => {
  test("is one that was looked at", () => {
    for (const recording of present) {
      expect(new Bun.CryptoHasher("sha256").update(readFileSync(fileOf(recording))).digest("hex")).toBe(recording.sha256);
    }
    expect(new Set(recordings.map(({ dialect }) => dialect))).toEqual(new Set(Object.keys(providerReaders)));
  });

  test.each(named(present.filter(isWhole)))("is read whole, and no part of it is taken for all of it: %s", (_, recording) => {
    const reader = providerReaders[recording.dialect]!;
    const body = bodyOf(recording, reader);
    const whole = reader.whole(body);
    if (isFailure(whole)) throw new Error(whole.detail);
    const { parts = [] } = whole.answer ?? {};
    expect({ finish: whole.finish, calls: callsIn(parts), text: textIn(parts) }).toMatchObject({
      ...{ finish: recording.finish, calls: recording.calls, text: recording.text },
    });
    const end = new TextDecoder().decode(body).trimEnd().length;
    for (let at = 0; at < Math.min(end, shortBytes); at++) expect(isFailure(reader.whole(body.subarray(0, at)))).toBe(true);
  });

  test.each(named(present.filter((recording) => !isWhole(recording))))("is read as a stream, however it is cut: %s", (_, recording) => {
    const reader = providerReaders[recording.dialect]!;
    const body = bodyOf(recording, reader);
    const whole = collectStream(reader.stream(), [body]);
    expect<string | undefined>(whole.failure?.kind).toBe(recording.fails);
    if (recording.finish !== undefined) expect(endOf(whole)).toBe(recording.finish);
    expect({ calls: callsIn(whole.parts), text: textIn(whole.parts) }).toEqual({ calls: recording.calls, text: recording.text });

    const bytes = Array.from(body, (byte) => Uint8Array.of(byte));
    expect(collectStream(reader.stream(), bytes)).toEqual(whole);
    if (body.length > shortBytes) return;
    for (let at = 1; at < body.length; at++) {
      expect(collectStream(reader.stream(), [body.subarray(0, at), body.subarray(at)])).toEqual(whole);
      // Where it breaks off, it has not ended, unless everything has been said.
      const broken = collectStream(reader.stream(), [body.subarray(0, at)]);
      if (broken.failure === null) expect(textIn(broken.parts)).toBe(textIn(whole.parts));
    }
  });
});
