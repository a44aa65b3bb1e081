// Needs: quiet. A stream goes on for a second and a half after the signal.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { openChat } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { clientKey } from "../support/rig.ts";

setDefaultTimeout(60_000);

const checkout = resolve(import.meta.dir, "../..");

describe("a gateway that npm start runs", () => {
  let upstream: Chaos;
  beforeAll(async () => {
    upstream = await startChaos({ name: "main" });
  });
  afterAll(() => upstream[Symbol.asyncDispose]());

  // npm is started in a group of its own, as a shell or a supervisor starts it.
  for (const [what, target] of [
    ["to npm alone, as `kill` sends it", "npm"],
    ["to the whole group, as a terminal or a supervisor sends it, and a copy of npm's", "group"],
  ] as const) {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      test(`lets its calls end after a ${signal} ${what}, and npm ends with it`, async () => {
        const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));
        const file = join(directory, "sluice.yaml");
        const config = {
          ...{ listen: "127.0.0.1:0", admin: "off", data_dir: directory, server: { linger: "0s", drain: "20s" } },
          keys: [{ name: "tester", key: clientKey }],
          channels: [{ name: "main", base_url: upstream.url, models: ["chaos"] }],
        };
        writeFileSync(file, JSON.stringify(config));
        const npm = Bun.spawn(["npm", "start", "--", "--config", file], {
          cwd: checkout,
          detached: true,
          stdin: "ignore",
          stdout: "pipe",
          stderr: "inherit",
        });
        let said = "";
        const heard = (async () => {
          for await (const text of npm.stdout.pipeThrough(new TextDecoderStream())) said += text;
        })();
        try {
          await eventually("it listens", () => said.includes('"event":"listening"'), 30_000);
          const [, url = ""] = /"event":"listening","url":"([^"]+)"/.exec(said) ?? [];
          const call = await openChat({ url }, { model: "chaos", x_tokens: 15, x_pace_ms: 100 }, { key: clientKey, stream: true });
          await upstream.waitFor(({ attempts }) => attempts.some(({ call: id }) => id === call.call), 10_000);
          process.kill(target === "npm" ? npm.pid : -npm.pid, signal);
          const reply = await call.reply;
          expect([reply.error, reply.done, reply.finishReason]).toEqual([null, true, "stop"]);
          expect(await npm.exited).toBe(0);
          // Its output ends when the last process that writes to it has ended.
          await heard;
          expect(said).toContain('"event":"stopped"');
        } finally {
          try {
            process.kill(-npm.pid, "SIGKILL");
          } catch {
            // All of them have ended.
          }
          rmSync(directory, { recursive: true, force: true });
        }
      });
    }
  }
});
