import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { CommandLine } from "../support/command-line.ts";

setDefaultTimeout(60_000);

let upstream: Chaos;
let cli: CommandLine;

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
    ],
  });
});

afterAll(async () => {
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
  const { code, out, err } = await cli.run(["channels", "test", "main", "--config", cli.config, "--audio", spoken, "--json"]);
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
