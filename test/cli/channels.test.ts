import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { CommandLine } from "../support/command-line.ts";
import { product } from "../support/product.ts";

setDefaultTimeout(60_000);

let upstream: Chaos;
let cli: CommandLine;
/** The temporary directory of the commands. */
let temporary: string;
const asked = Promise.withResolvers<void>();
const silent = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: () => {
    asked.resolve();
    return new Promise<Response>(() => {});
  },
});

beforeAll(async () => {
  upstream = await startChaos();
  cli = new CommandLine({
    channels: [
      {
        name: "main",
        base_url: upstream.url,
        api_key: "sk-upstream",
        models: ["plain"],
        capabilities: { operations: ["chat", "transcription", "speech"] },
      },
      {
        name: "gone",
        base_url: "http://127.0.0.1:9/v1",
        api_key: "sk-upstream",
        models: ["plain"],
        capabilities: { operations: ["chat"] },
      },
      { name: "silent", base_url: `${silent.url.origin}/v1`, models: ["plain"], capabilities: { operations: ["chat"] } },
    ],
  });
  temporary = join(cli.folder, "tmp");
  mkdirSync(temporary);
});

afterAll(async () => {
  await silent.stop(true);
  await upstream[Symbol.asyncDispose]();
});

interface Report {
  readonly calls: readonly {
    readonly operation: string;
    readonly ok: boolean;
    readonly model: string;
    readonly outcome: string;
    readonly text: string | null;
  }[];
}

test("sluice channels test makes a real call for each operation of the channel, and of no other channel", async () => {
  const spoken = join(cli.folder, "spoken.mp3");
  const { code, out, err } = await cli.run(["channels", "test", "main", "--config", cli.config, "--audio", spoken, "--json"], {
    env: { TMPDIR: temporary },
  });
  expect({ code, err }).toEqual({ code: 0, err: `What it spoke is in ${spoken}.\n` });
  const { calls } = JSON.parse(out) as Report;
  expect(calls.map(({ operation, ok, model }) => [operation, ok, model])).toEqual([
    ["chat", true, "plain"],
    ["speech", true, "plain"],
    ["transcription", true, "plain"],
  ]);
  expect(calls[1]?.outcome).toBe(`${statSync(spoken).size} bytes of audio`);
  const [chat, , transcription] = upstream.ledger.chats;
  expect([calls[0]?.text, calls[2]?.text]).toEqual([chat, transcription].map((attempt) => attempt!.tokensSent.join("").trim()));
  // What it spoke, it had to transcribe.
  expect(transcription?.upload?.file).toMatchObject({ name: "test.mp3", bytes: statSync(spoken).size });
  expect(upstream.ledger.chats.length).toBe(calls.length);
  expect(readdirSync(temporary)).toEqual([]);
});

test("sluice channels test leaves nothing behind when it is interrupted", async () => {
  const child = Bun.spawn(["sh", product, "channels", "test", "silent", "--config", cli.config], {
    cwd: cli.folder,
    env: { PATH: process.env["PATH"] ?? "", HOME: cli.folder, TMPDIR: temporary },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  await Promise.race([asked.promise, child.exited]);
  expect(readdirSync(temporary)).not.toEqual([]);
  child.kill("SIGINT");
  expect(await child.exited).toBe(130);
  expect(await new Response(child.stderr).text()).toBe("Stopped.\n");
  expect(readdirSync(temporary)).toEqual([]);
});

test("sluice channels test says what failed and why, and exits with 1", async () => {
  const { code, out } = await cli.run(["channels", "test", "gone", "--config", cli.config]);
  expect(code).toBe(1);
  expect(out).toContain("failed (502)");
  expect(out).toContain("upstream_unreachable");
});

test("sluice channels test names the channel that was probably meant", async () => {
  const { code, err } = await cli.run(["channels", "test", "mian", "--config", cli.config]);
  expect(code).toBe(1);
  expect(err).toContain('Did you mean "main"?');
});

test("sluice channels test tells an operation that the channel does not have from a failure", async () => {
  const { code, out } = await cli.run(["channels", "test", "main", "--operations", "embedding", "--config", cli.config]);
  expect(code).toBe(1);
  expect(out).toContain("no model of this channel is known to support it");
});
