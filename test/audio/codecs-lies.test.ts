import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { decodeFile, UndecodableAudio } from "../../packages/embedded/src/codecs/decode-file.ts";
import { aiff, caf, fragmentedMp4, m4a, wav, webm } from "../support/containers.ts";
import { endlessWebm } from "../support/hostile-audio.ts";

setDefaultTimeout(60_000);

/** Far above what the decoders take, and far below what a table of 2^32 entries would. */
const bytesMax = 600e6;

test("a container whose numbers claim 2^32 entries takes no more memory than an honest one", async () => {
  const program = new URL("../support/decode-lies.ts", import.meta.url).pathname;
  const child = Bun.spawn([process.execPath, program], { stdout: "pipe", stderr: "inherit", timeout: 50_000 });
  // Where the promise is broken, it must not take the machine along.
  const watch = setInterval(() => {
    if (residentBytes(child.pid) > bytesMax) child.kill("SIGKILL");
  }, 20);
  const said = await new Response(child.stdout).text();
  clearInterval(watch);
  expect(child.signalCode).toBeNull();
  const { outcomes, peakBytes } = JSON.parse(said) as { outcomes: Record<string, string>; peakBytes: number };
  expect(Object.keys(outcomes).length).toBeGreaterThan(60);
  for (const [name, outcome] of Object.entries(outcomes)) expect(`${name}: ${outcome}`).toMatch(/: (read|refused)$/);
  expect(peakBytes).toBeLessThan(bytesMax);
});

test.each([m4a, fragmentedMp4, webm, aiff, caf, wav].map((make) => [make.name, make] as const))("an honest %s is read", async (_, make) => {
  expect((await decodeFile(make())).samples.length).toBeGreaterThan(0);
});

test("tables that nothing is read from may say what they want", async () => {
  const honest = (await decodeFile(m4a())).samples.length;
  for (const name of ["stts.samples", "ctts", "ctts.samples", "stsc", "stsc.samples", "stsz", "stco", "stss", "elst"]) {
    expect((await decodeFile(m4a({ [name]: 0xffff_ffff }))).samples.length).toBe(honest);
  }
});

test("a webm that leads nowhere is refused at once", async () => {
  await expect(decodeFile(endlessWebm())).rejects.toBeInstanceOf(UndecodableAudio);
});

function residentBytes(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
