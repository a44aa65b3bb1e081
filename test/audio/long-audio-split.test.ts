import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { resolve } from "node:path";
import fc from "fast-check";
import { Mp4OutputFormat } from "mediabunny";
import { makeSplitter, type Part } from "../../packages/embedded/src/split/splitter.ts";
import { wavFile } from "../../packages/embedded/src/split/wav-file.ts";
import { makeSplitAudio } from "../../src/engines/audio/split.ts";
import type { AudioSplit, AudioPart, SplitFailure } from "../../src/gateway/ports.ts";
import { eventually } from "../support/eventually.ts";
import { slowMp4 } from "../support/hostile-audio.ts";
import { heardTones, samplesOf, spokenTones, toneRate } from "../support/heard-tones.ts";
import { filesOf, remux } from "../support/audio-files.ts";
import { stored } from "../support/transcription-world.ts";
import { slowed } from "../support/slowed.ts";

// Codecs are work, and the machine may have other work.
setDefaultTimeout(60_000);

const onLinux = existsSync("/proc/self/fd");
const open: AudioSplit[] = [];

afterEach(() => {
  for (const cutting of open.splice(0)) cutting.stop();
});

describe("a recording that is cut", () => {
  const cut = (samples: Float32Array, secondsMax: number, pieces = 1): readonly Part[] => {
    const parts: Part[] = [];
    const cutter = makeSplitter({ sampleRate: 1000, secondsMax, onPart: (part) => parts.push({ ...part, samples: part.samples.slice() }) });
    const size = Math.ceil(samples.length / pieces);
    for (let at = 0; at < samples.length; at += size) cutter.push(samples.subarray(at, at + size));
    cutter.end();
    return parts;
  };

  test("is all there, in parts of the right length, whatever it is and however it comes", () => {
    const stretch = fc.record({ seconds: fc.integer({ min: 1, max: 9 }), level: fc.constantFrom(0, 0.0005, 0.05, 0.5) });
    fc.assert(
      fc.property(
        fc.array(stretch, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 5, max: 20 }),
        fc.integer({ min: 1, max: 9 }),
        (stretches, max, pieces) => {
          const samples = Float32Array.from(
            stretches.flatMap(({ seconds, level }) =>
              Array.from({ length: seconds * 1000 }, (_, index) => (index % 2 === 0 ? level : -level)),
            ),
          );
          const parts = cut(samples, max, pieces);
          let end = 0;
          for (const [index, part] of parts.entries()) {
            expect(part.start).toBe(end - part.overlap);
            expect(part.overlap > 0).toBe(index > 0 && parts[index - 1]!.goesOn);
            expect(part.samples.length).toBeLessThanOrEqual(max * 1000);
            if (parts.length > 1) expect(part.samples.length).toBeGreaterThanOrEqual(1000);
            part.samples.forEach((sample, at) => {
              if (Math.abs(sample - samples[part.start + at]! * 32_767) > 1) throw new Error("another sample");
            });
            end = part.start + part.samples.length;
          }
          expect(end).toBe(samples.length);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("is cut in the middle of its longest silence near the wanted length", () => {
    const samples = Float32Array.from({ length: 30_000 }, (_, index) => Math.sin(index));
    samples.fill(0, 7200, 7500);
    samples.fill(0, 8000, 9000);
    samples.fill(0, 9500, 9700);
    const [first] = cut(samples, 10);
    expect(first!.samples.length).toBeGreaterThan(8400);
    expect(first!.samples.length).toBeLessThan(8600);
    expect(first!.goesOn).toBe(false);
  });

  test("overlaps by two seconds where there is no silence", () => {
    const parts = cut(
      Float32Array.from({ length: 40_000 }, (_, index) => Math.sin(index)),
      15,
    );
    expect(parts.length).toBeGreaterThan(2);
    expect(parts.slice(1).every(({ overlap }) => overlap === 2000)).toBe(true);
  });

  test("finds a pause in noise, too", () => {
    const samples = Float32Array.from(
      { length: 20_000 },
      (_, index) => Math.sin(index * 1.7) * (index > 8500 && index < 9100 ? 0.02 : 0.5),
    );
    const [first] = cut(samples, 10);
    expect(first!.goesOn).toBe(false);
    expect(first!.samples.length).toBeGreaterThan(8500);
    expect(first!.samples.length).toBeLessThan(9100);
  });
});

const speech = { words: 30, toneSeconds: 1.2, gapSeconds: 0.8 };
/** For every format, which is work for the codecs: half of it, in parts of half the length. */
const encoded = { ...speech, words: 16 };
const seconds = encoded.words * 2;
const secondsMax = 8;
const encode = filesOf(spokenTones(encoded), toneRate);

describe("the process that cuts", () => {
  const files: readonly (readonly [string, () => Promise<Uint8Array>])[] = [
    ...(["wav", "mp3", "flac", "opus", "aac"] as const).map((format) => [format, () => encode(format)] as const),
    ["m4a with its index at the end", async () => remux(await encode("aac"), new Mp4OutputFormat({ fastStart: false }))],
    ["mp3 with a picture in front", async () => Buffer.concat([id3(300_000), await encode("mp3")])],
  ];

  test.each(files)("cuts %s into silences, with nothing lost and all times right", async (_, make) => {
    const parts = await all(cutting(await make(), secondsMax));
    expect(parts.length).toBeGreaterThanOrEqual(4);
    const words: string[] = [];
    for (const [index, { start, end, overlap, file, samples }] of parts.entries()) {
      expect(start).toBe(parts[index - 1]?.end ?? 0);
      expect(overlap).toBe(0);
      expect(end - start).toBeLessThanOrEqual(secondsMax);
      expect(samples.length / toneRate).toBeCloseTo(end - start, 6);
      expect(file).toMatchObject({ name: "part.wav", type: "audio/wav" });
      for (const word of heardTones(samples, encoded.toneSeconds)) {
        words.push(word.word);
        // Word n begins at second 2n of the recording; codecs may be late by a little.
        expect(Math.abs(start + word.start - (words.length - 1) * 2)).toBeLessThan(0.15);
      }
    }
    expect(words).toEqual(Array.from({ length: encoded.words }, (__, index) => `tone${index}`));
    expect(Math.abs(parts.at(-1)!.end - seconds)).toBeLessThan(0.2);
  });

  test("gives the first part while the rest of the file has not been read", async () => {
    const wav = wavOf(tones());
    let read = 0;
    const slow = {
      ...stored(wav),
      read: (from: number, length: number) => (
        (read = Math.max(read, from + length)),
        Promise.resolve(wav.slice(from, from + Math.min(length, 65_536)))
      ),
    };
    const cutter = makeSplitAudio()(slow, 5);
    open.push(cutter);
    const first = await cutter.next();
    expect(first).toMatchObject({ kind: "part", start: 0 });
    // Not taking any more holds up the reading: what fits into pipes and buffers is far from all.
    expect(read).toBeLessThan(wav.length);
    (first as AudioPart).dispose();
  });

  test.each([
    ["text", new TextEncoder().encode("this is not audio ".repeat(1000))],
    ["noise", Uint8Array.from({ length: 50_000 }, (_, index) => (index * 7919 + (index >> 3)) & 0xff)],
    ["a WAV file without audio", wavOf(tones()).subarray(0, 44)],
    ["an mp4 mark and nothing behind it", new TextEncoder().encode("\0\0\0\u0018ftypM4A \0\0\0\0")],
  ])("says that %s is not audio", async (_, bytes) => {
    const trouble = await cutting(bytes, 15).next();
    expect(trouble).toMatchObject({ kind: "failed", failure: { kind: "invalid_request", status: 400, param: "file" } });
    expect((trouble as SplitFailure & { readonly kind: "failed" }).failure.publicMessage).toContain("could not be cut into parts");
  });

  test("is not there where its package is not", async () => {
    const cutter = makeSplitAudio({ program: new URL("file:///nowhere/main.ts") })(stored(wavOf(tones())), 15);
    expect(await cutter.next()).toMatchObject({ kind: "absent" });
  });

  test.skipIf(!onLinux)("is ended at once, and leaves nothing open", async () => {
    const before = descriptors();
    const children = childProcesses();
    const cutter = cutting(wavOf(tones()), 5);
    const part = (await cutter.next()) as AudioPart;
    expect(childProcesses().length).toBe(children.length + 1);
    const waiting = cutter.next();
    cutter.stop();
    const late = await waiting;
    if (late?.kind === "part") late.dispose();
    expect(await cutter.next()).toMatchObject({ kind: "failed" });
    part.dispose();
    await eventually("the process is gone", () => childProcesses().length === children.length);
    await eventually("descriptors are closed", () => descriptors() <= before);
  });

  test("that is stuck is given up", async () => {
    const program = new URL("../support/heard-tones.ts", import.meta.url);
    const silent = makeSplitAudio({ program, stallMs: 5000 })(stored(wavOf(tones())), 15);
    // It ends by itself without a word.
    expect(await silent.next()).toMatchObject({ kind: "failed", failure: { kind: "internal" } });
    const stuck = makeSplitAudio({ stallMs: 30 })({ ...stored(wavOf(tones())), read: () => new Promise(() => {}) }, 15);
    expect(await stuck.next()).toMatchObject({ kind: "failed", failure: { kind: "internal", detail: expect.stringContaining("stuck") } });
  });

  const program = resolve(import.meta.dir, "../../packages/embedded/src/split/main.ts");

  test("gives up a file that its decoder never comes back from, says so, and is gone", async () => {
    const file = slowMp4();
    const flags = ["--seconds", "15", "--bytes", String(file.length), "--stall-seconds", "1"];
    const child = Bun.spawn([process.execPath, program, ...flags], { stdin: "pipe", stdout: "pipe", stderr: "ignore", timeout: 55_000 });
    await child.stdin.write(file);
    await child.stdin.flush();
    const beganMs = performance.now();
    expect(await new Response(child.stdout).text()).toContain('"reason":"undecodable","message":"Decoding it takes too long');
    await child.exited;
    expect(performance.now() - beganMs).toBeLessThan(slowed(10_000));
  });

  test("does not take it for a stall that its parts are not taken, or its file does not come", async () => {
    const wav = wavOf(tones());
    const flags = ["--seconds", "5", "--bytes", String(wav.length), "--stall-seconds", "1"];
    const child = Bun.spawn([process.execPath, program, ...flags], { stdin: "pipe", stdout: "pipe", stderr: "ignore", timeout: 55_000 });
    await child.stdin.write(wav.subarray(0, 1000));
    await child.stdin.flush();
    await Bun.sleep(2500);
    void child.stdin.write(wav.subarray(1000));
    void child.stdin.end();
    await Bun.sleep(2500);
    expect(Buffer.from(await new Response(child.stdout).bytes()).toString("latin1")).toEndWith('{"type":"end"}');
    expect(await child.exited).toBe(0);
  });

  test.skipIf(!onLinux)("does not outlive whoever started it, though it is decoding", async () => {
    const file = slowMp4();
    const flags = `--seconds 15 --bytes ${file.length}`;
    // The shell says which process it started, and is killed.
    const command = `exec 3<&0; "${process.execPath}" "${program}" ${flags} <&3 >/dev/null 2>&1 & echo $!; wait`;
    const parent = Bun.spawn(["sh", "-c", command], { stdin: "pipe", stdout: "pipe", stderr: "ignore", timeout: 55_000 });
    await parent.stdin.write(file);
    await parent.stdin.flush();
    const reader = parent.stdout.getReader();
    const pid = Number(new TextDecoder().decode((await reader.read()).value));
    const isThere = (): boolean => existsSync(`/proc/${pid}`) && !/State:\s+Z/.test(readFileSync(`/proc/${pid}/status`, "utf8"));
    const ticks = (): number => Number(readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")[13]);
    await eventually("it is decoding", () => ticks() > 100, 15_000);
    parent.kill("SIGKILL");
    await eventually("it is gone", () => !isThere(), 10_000);
  });

  test("a recording that cannot be read back is our trouble, not the client's", async () => {
    const cutter = makeSplitAudio()({ ...stored(wavOf(tones())), read: () => Promise.reject(new Error("the disk failed")) }, 15);
    expect(await cutter.next()).toMatchObject({ kind: "failed", failure: { kind: "internal" } });
  });

  test("runs a few times at once; others wait, and too many are refused", async () => {
    const cut = makeSplitAudio({ processesMax: 1, waitingMax: 1 });
    const begin = (): AudioSplit => {
      const cutter = cut(stored(wavOf(tones())), 15);
      open.push(cutter);
      return cutter;
    };
    const [first, second, third] = [begin(), begin(), begin()];
    expect(await third.next()).toMatchObject({ kind: "failed", failure: { kind: "saturated" } });
    await expectPart(first);
    const waiting = second.next();
    await expectPart(first);
    if (onLinux) expect(childProcesses()).toHaveLength(1);
    first.stop();
    await expectPart({ next: () => waiting });
    second.stop();
    const fourth = begin();
    await expectPart(fourth);
    // One that is given up while it waits takes nobody's turn.
    const fifth = begin();
    const never = fifth.next();
    fifth.stop();
    expect(await never).toMatchObject({ kind: "failed" });
    fourth.stop();
    await expectPart(begin());
  });
});

async function expectPart(cutter: Pick<AudioSplit, "next">): Promise<void> {
  const part = await cutter.next();
  expect(part?.kind).toBe("part");
  (part as AudioPart).dispose();
}

function tones(): Float32Array {
  return spokenTones(speech);
}

function wavOf(samples: Float32Array): Uint8Array {
  return wavFile(
    Int16Array.from(samples, (sample) => Math.round(sample * 32_767)),
    toneRate,
  );
}

function id3(bytes: number): Uint8Array {
  const tag = new Uint8Array(10 + bytes);
  tag.set([0x49, 0x44, 0x33, 4, 0, 0, (bytes >> 21) & 127, (bytes >> 14) & 127, (bytes >> 7) & 127, bytes & 127]);
  return tag;
}

function cutting(bytes: Uint8Array, secondsMax: number): AudioSplit {
  const made = makeSplitAudio()(stored(bytes), secondsMax);
  open.push(made);
  return made;
}

async function all(cutter: AudioSplit): Promise<readonly (AudioPart & { readonly samples: Float32Array })[]> {
  const parts: (AudioPart & { readonly samples: Float32Array })[] = [];
  for (let part = await cutter.next(); part !== null; part = await cutter.next()) {
    if (part.kind !== "part") throw new Error(JSON.stringify(part));
    const { content } = part.file;
    parts.push({ ...part, samples: samplesOf(await content.read(0, content.length)) });
    expect(content.head).toEqual((await content.read(0, 4096)) as Buffer);
    part.dispose();
  }
  return parts;
}

/** Of files without a name. */
function descriptors(): number {
  return readdirSync("/proc/self/fd").filter((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`).includes("sluice-");
    } catch {
      return false;
    }
  }).length;
}

/** The processes of ours that cut. */
function childProcesses(): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      const parent = /^\d+ \(.*\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, "utf8"))?.[1];
      return parent === String(process.pid) && readFileSync(`/proc/${name}/cmdline`, "utf8").includes("split/main.ts");
    } catch {
      return false;
    }
  });
}
