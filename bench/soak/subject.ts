import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort, root, type Running, scratch, start } from "../processes.ts";
import { startsWithinMs } from "../target.ts";
import { Admin } from "./admin.ts";
import type { SoakOptions } from "./options.ts";

/** The gateway that is watched, started as an operator starts it. */
export interface Subject {
  readonly running: Running;
  readonly origin: string;
  readonly admin: Admin;
  readonly dataDir: string;
  readonly temporaryFolder: string;
  /** Lines of its log that tell of a failure of its own. */
  readonly errors: readonly string[];
  /** Writes another file, and tells it so. Resolves when it goes by it. */
  reload(): Promise<void>;
}

export async function startSubject(options: SoakOptions, ports: readonly number[]): Promise<Subject> {
  const directory = join(scratch, "subject");
  const temporaryFolder = join(directory, "tmp");
  mkdirSync(temporaryFolder, { recursive: true });
  const [file, tokenFile] = [join(directory, "sluice.yaml"), join(directory, "admin-token")];
  const token = `operator-${crypto.randomUUID()}${crypto.randomUUID()}`;
  writeFileSync(tokenFile, token, { mode: 0o600 });
  const place = { listen: `127.0.0.1:${freePort()}`, data_dir: join(directory, "data"), admin: "127.0.0.1:0" };
  let version = 0;
  const write = (): void => writeFileSync(file, JSON.stringify({ ...place, ...configuration(options, ports, version) }));
  write();
  const errors: string[] = [];
  const running = start({
    name: "gateway",
    command: ["sh", join(root, "bin", "sluice"), "start", "--config", file],
    directory,
    environment: { TMPDIR: temporaryFolder, ADMIN_TOKEN_FILE: tokenFile },
    onMessage: (message) => {
      if (message["level"] === "error" && errors.length < errorsMax) errors.push(JSON.stringify(message));
    },
  });
  const { url, admin } = (await running.event("listening", startsWithinMs)) as { url: string; admin: string };
  return {
    running,
    origin: new URL(url).origin,
    admin: new Admin(admin, token),
    dataDir: place.data_dir,
    temporaryFolder,
    errors,
    reload: async () => {
      version += 1;
      running.forget("reloaded");
      write();
      process.kill(running.pid, "SIGHUP");
      await running.event("reloaded", startsWithinMs);
    },
  };
}

/** Each version differs from the last in a channel, a key and a weight. */
function configuration({ store, state }: SoakOptions, [steady = 0, faulty = 0]: readonly number[], version: number): object {
  const channel = (name: string, port: number, models: readonly string[], more: object = {}): object => ({
    name,
    dialect: "openai",
    base_url: `http://127.0.0.1:${port}/v1`,
    api_key: "x",
    models,
    concurrency: 10_000,
    ...more,
  });
  const models = ["soak-chat", "soak-ears", "soak-voice", "soak-vectors"];
  return {
    store,
    state,
    keys: [{ name: `of-version-${version}`, key: `soak-file-key-${version}-0123456789abcdef0123456789` }],
    prices: [{ model: "*", input: 3, output: 15 }],
    channels: [
      channel("steady", steady, models, { weight: 1 + (version % 3) }),
      channel("second", steady, models),
      ...(version % 2 === 1 ? [channel(`only-in-${version}`, steady, models)] : []),
      channel("faulty", faulty, ["soak-faulty"], { tier: 1, timeouts: { first_byte: "2s", first_content: "2s", idle: "5s" } }),
      channel("behind", steady, ["soak-faulty"], { tier: 2 }),
    ],
    server: { linger: "0s", drain: "0s" },
  };
}

const errorsMax = 100;
