// Needs: models, slow. Two models hear three recordings; embedded-addons proves what is served, embedded-server that a model hears.
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addedModels } from "../../packages/embedded/src/addons/installed.ts";
import { catalog } from "../../packages/embedded/src/catalog.ts";
import type { Engine } from "../../packages/embedded/src/server/engine.ts";
import { serveEngine } from "../../packages/embedded/src/server/serve-engine.ts";
import { makeSpeechEngine } from "../../packages/embedded/src/server/speech-engine.ts";
import { makeTranscriptionEngine } from "../../packages/embedded/src/server/transcription-engine.ts";
import { transcriptOf } from "../support/engine-process.ts";
import { addWhisperCopy } from "../support/whisper-copy.ts";

// Models load slowly on a busy machine.
setDefaultTimeout(120_000);

type Ask = (path: string, init?: RequestInit) => Promise<Response>;

const directory = mkdtempSync(join(tmpdir(), "addons-"));
const dataDir = join(directory, "data");
const endings: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const end of endings) await end();
  rmSync(directory, { recursive: true, force: true });
});

/** An engine of this process, behind a real socket. */
function serve(engine: Engine): Ask {
  const socket = join(directory, `${endings.length}.sock`);
  const server = serveEngine(engine, { socket, idleMs: 600_000, onIdle: () => {} });
  endings.push(() => server.stop());
  return (path, init = {}) => fetch(`http://engine${path}`, { ...init, unix: socket });
}

async function spoken(input: string): Promise<Blob> {
  const ask = serve(makeSpeechEngine(() => catalog.filter(({ operation }) => operation === "speech")));
  const body = JSON.stringify({ model: "flite", voice: "slt", response_format: "wav", input });
  return (await ask("/v1/audio/speech", { method: "POST", body })).blob();
}

test("an added Whisper hears as the one built in does, and the two take turns in memory", async () => {
  const table = [await addWhisperCopy(dataDir, "whisper-copy")];
  const builtIn = catalog.filter(({ operation }) => operation === "transcription");
  const ask = serve(makeTranscriptionEngine(() => [...builtIn, ...addedModels(dataDir, table)]));
  const { data } = (await (await ask("/v1/models")).json()) as { readonly data: readonly { readonly id: string }[] };
  expect(data.map(({ id }) => id)).toEqual(["whisper-base", "whisper-copy"]);
  const audio = await spoken("The quick brown fox jumps over the lazy dog.");
  const names = ["whisper-copy", "whisper-base", "embedded/whisper-copy"];
  // All at once: none may lose its weights to the next while it listens.
  const texts = await Promise.all(names.map((name) => transcriptOf(ask, name, audio)));
  expect(texts[0]).toMatch(/quick brown fox jumps? over the lazy dog/i);
  expect(new Set(texts).size).toBe(1);
});
