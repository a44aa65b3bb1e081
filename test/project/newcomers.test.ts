// Needs: quiet. It mostly waits for commands to end, one at a time.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listenProblem } from "../../src/cli/process/listen-problem.ts";
import { temporaryDirectoryProblem } from "../../src/cli/process/temporary-directory.ts";
import { modelTimes } from "../../src/gateway/snapshot.ts";
import { errorEvent, shownAs } from "../../src/http/errors.ts";
import { baseUrlMistake, servedRoutes } from "../../src/http/routes.ts";
import { UnknownRoutes, type UnknownRoute } from "../../src/http/unknown-routes.ts";
import { failure, ofLocalEngine } from "../../src/operations/failure.ts";
import { operations, operationsNamed } from "../../src/operations/operation.ts";
import { rawRequest } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { kindsOfAttempts } from "../support/failure-kinds.ts";
import { startGateway, type LogLine } from "../support/gateway.ts";
import { product } from "../support/product.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

describe("a gateway that is asked for something it does not have", () => {
  let rig: Rig<"a">;

  beforeAll(async () => {
    rig = await setUp({ a: { models: ["gpt-5-mini"] } });
  });

  afterAll(() => rig[Symbol.asyncDispose]());

  async function logged(field: string, value: unknown): Promise<LogLine> {
    const find = (): LogLine | undefined => rig.gateway.logs.find((one) => one["event"] === "unknown_route" && one[field] === value);
    await eventually("the line", () => find() !== undefined);
    return find()!;
  }

  const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    rawRequest(rig.gateway.url, { method, path, headers });

  test("answers /health as it does /healthz", async () => {
    const [short, usual] = [await get("/health"), await get("/healthz")];
    expect([short.status, short.text]).toEqual([200, "ok\n"]);
    expect(short.text).toBe(usual.text);
    expect((await get("/health", {}, "HEAD")).status).toBe(200);
    expect((await get("/health", {}, "POST")).status).toBe(405);
  });

  test("says with a stable code what there is, and what is wrong with the base URL", async () => {
    const response = await get("/chat/completions", {}, "POST");
    expect(response.status).toBe(404);
    const { error } = response.json() as { readonly error: { readonly code: string; readonly message: string } };
    expect(error.code).toBe("unknown_route");
    for (const route of servedRoutes) expect(error.message).toContain(route);
    expect(error.message).toContain("needs /v1 at its end");
    expect(servedRoutes).toContain("GET /v1/models/{model}");
    for (const route of ["POST /v1/messages", "POST /v1/responses"]) expect(servedRoutes).toContain(route);
  });

  test("logs the path and who asked, and neither a query nor a key", async () => {
    const key = "sk-canary-0123456789abcdef0123456789";
    const response = await get(`/v1/embeddings/${key}?api_key=${key}`, { "User-Agent": "some-sdk/1.2" }, "POST");
    const id = response.header("x-request-id");
    const line = await logged("request_id", id);
    expect(line).toMatchObject({
      event: "unknown_route",
      level: "warn",
      method: "POST",
      path: "/v1/embeddings/…",
      user_agent: "some-sdk/1.2",
    });
    expect(rig.gateway.text).not.toContain(key);
    const long = await get(`/${"ab/".repeat(1000)}`, { "User-Agent": "x".repeat(5000) });
    const bounded = await logged("request_id", long.header("x-request-id"));
    expect([String(bounded["path"]).length, String(bounded["user_agent"]).length]).toEqual([200, 200]);
    const files = await get("/v1/files", { Authorization: `Bearer ${clientKey}` }, "POST");
    expect(files.json()).toMatchObject({ error: { code: "unknown_route" } });
    await logged("path", "/v1/files");
  });
});

test("a base URL that is nearly right is told so", () => {
  expect(baseUrlMistake("/models")).toContain("/v1 at its end");
  expect(baseUrlMistake("/audio/speech")).toContain("/v1 at its end");
  expect(baseUrlMistake("/v1/v1/chat/completions")).toContain("twice");
  expect(baseUrlMistake("/v1//chat/completions")).toContain("slash too many");
  expect(baseUrlMistake("/v1/chat/completions/")).toContain("end with a slash");
  for (const path of ["/", "/v1", "/v2/chat/completions", "", "//", "/v1/embeddings"]) expect(baseUrlMistake(path)).toBeNull();
});

test("strangers cannot fill the log with unknown paths, and what was left out is counted", () => {
  let nowMs = 0;
  const facts: UnknownRoute[] = [];
  const routes = new UnknownRoutes(
    () => nowMs,
    (fact) => facts.push(fact),
  );
  const request = { method: "GET", header: () => null };
  for (let at = 0; at < 1000; at += 1) routes.note(request, "/wp-login.php", `req_${at}`);
  expect(facts).toHaveLength(20);
  expect(facts.every(({ unlogged }) => unlogged === undefined)).toBe(true);
  nowMs = 10_000;
  routes.note(request, "/", "req_last");
  routes.note(request, "/", "req_more");
  expect(facts.slice(20)).toEqual([
    { method: "GET", path: "/", user_agent: null, request_id: "req_last", unlogged: 980 },
    { method: "GET", path: "/", user_agent: null, request_id: "req_more" },
  ]);
});

describe("a list of models", () => {
  test.each([
    ["gpt-4o", "chat"],
    ["gpt-4o-audio-preview", "chat"],
    ["whisper-1", "transcription"],
    ["whisper-large-v3-turbo", "transcription"],
    ["gpt-4o-mini-transcribe", "transcription"],
    ["scribe_v1", "transcription"],
    ["tts-1-hd", "speech"],
    ["gpt-4o-mini-tts", "speech"],
    ["canopylabs/orpheus-v1-english", "speech"],
    ["llama-3.3-70b-versatile", "chat"],
    ["text-embedding-3-small", "embedding"],
    ["nomic-embed-text", "embedding"],
    ["BAAI/bge-m3", "embedding"],
    ["BAAI/bge-reranker-v2-m3", "rerank"],
    ["omni-moderation-latest", "moderation"],
    ["gpt-image-1", "image"],
    ["dall-e-3", "image"],
    ["black-forest-labs/FLUX.1-schnell", "image"],
    ["gpt-3.5-turbo-instruct", "completion"],
    ["meta-llama/Llama-3.3-70B-Instruct-Turbo", "chat"],
  ] as const)("says of %s of a known provider that it is for %s", (model, operation) => {
    expect(operationsNamed(model, operations, true)).toEqual([operation]);
  });

  test("leaves open what a name does not tell, and never says what the channel does not do", () => {
    expect(operationsNamed("mine", operations, false)).toEqual(operations);
    expect(operationsNamed("whisper-of-mine", operations, false)).toEqual(["transcription"]);
    expect(operationsNamed("whisper-1", ["chat"], true)).toEqual(["chat"]);
    expect(operationsNamed("gpt-4o", ["transcription", "speech"], true)).toEqual(["transcription", "speech"]);
  });

  test("keeps the time of a model while it is there", () => {
    const first = modelTimes(null, ["a", "b"], 1000);
    const second = modelTimes(first, ["b", "c"], 2000);
    expect([...second.sinceMs]).toEqual([
      ["b", 1000],
      ["c", 2000],
    ]);
    expect(second.firstMs).toBe(1000);
    expect(modelTimes(second, ["a"], 3000).sinceMs.get("a")).toBe(3000);
  });
});

describe("a start that fails says what to do", () => {
  function startWith(config: string, env: Record<string, string> = {}): { readonly code: number | null; readonly said: string } {
    const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
    writeFileSync(join(folder, "a-file"), "");
    writeFileSync(join(folder, "sluice.yaml"), config);
    const ran = Bun.spawnSync(["sh", product, "start", "--config", "sluice.yaml"], {
      cwd: folder,
      env: { PATH: process.env["PATH"] ?? "", ...env },
      stdout: "pipe",
      stderr: "pipe",
    });
    rmSync(folder, { recursive: true });
    return { code: ran.exitCode, said: `${ran.stdout.toString()}${ran.stderr.toString()}` };
  }

  test("where data_dir is a file", () => {
    for (const place of ["a-file", "a-file/below"]) {
      const { code, said } = startWith(`listen: 127.0.0.1:0\nadmin: off\ndata_dir: ${place}\n`);
      expect(code).toBe(1);
      expect(said).toMatch(/is a file, or is inside one\. Set data_dir to a folder/);
      expect(said).toContain("The gateway was not started.");
    }
  });

  test("where the address is not this machine's, and it names the temporary directory that is not writable", () => {
    const { code, said } = startWith("listen: 192.0.2.1:4400\nadmin: off\n", { TMPDIR: "/proc/nowhere" });
    expect(code).toBe(1);
    expect(said).toContain("This machine has no address 192.0.2.1. Listen on 127.0.0.1");
    expect(said).toMatch(/the temporary directory \/proc\/nowhere is not writable \(\w+\)/);
    expect(said).toContain("set TMPDIR to a directory");
  });

  test("where the file is not there, or is a directory", () => {
    const said = (file: string): string => Bun.spawnSync(["sh", product, "start", "--config", file], { stderr: "pipe" }).stderr.toString();
    expect(said("/nowhere/sluice.yaml")).toContain("there is no such file");
    expect(said("/")).toContain("this is a directory");
  });

  test("where the port is reserved, in use, or not available for another reason", () => {
    const place = { host: "127.0.0.1", port: 80 };
    const words = (code: string, port = 80): string => listenProblem({ code }, { ...place, port }, "--listen");
    expect(words("EACCES")).toBe(
      "Port 80 is below 1024, which the system reserves for privileged users. Start with --listen 127.0.0.1:8080 behind a proxy, " +
        "or allow such ports: sysctl net.ipv4.ip_unprivileged_port_start=80.",
    );
    expect(words("EACCES", 8080)).toContain("does not allow this user to listen on 127.0.0.1:8080");
    expect(words("EADDRINUSE")).toContain("is already in use. Stop the program that uses it, or start with --listen 127.0.0.1:PORT");
    expect(words("EMFILE")).toContain("(EMFILE)");
    expect(listenProblem(new Error("Failed to listen at a.invalid"), { host: "a.invalid", port: 1 }, "--admin")).toContain(
      "Give an address",
    );
  });

  test("and a writable temporary directory causes no warning", () => {
    expect(temporaryDirectoryProblem()).toBeNull();
    expect(temporaryDirectoryProblem("/proc")).toContain("TMPDIR");
  });
});

describe("a failure of an engine of this machine", () => {
  test.each(kindsOfAttempts)("is never called the upstream: %s", (kind) => {
    for (const status of [null, 503]) {
      const cause = ofLocalEngine(failure(kind, "it crashed", { status }));
      expect(JSON.stringify(shownAs(cause))).not.toContain("upstream");
      expect(new TextDecoder().decode(errorEvent(cause, "req_1"))).not.toContain("upstream");
    }
  });

  test("is told as its own by a running gateway", async () => {
    await using gateway = await startGateway({
      config: { channels: [{ name: "embedded", provider: "embedded" }], keys: [{ name: "tester", key: clientKey }] },
      // Its socket has no place there.
      env: { TMPDIR: "/proc" },
    });
    const response = await fetch(`${gateway.url}/v1/audio/speech`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${clientKey}` },
      body: JSON.stringify({ model: "embedded/flite", voice: "kal16", input: "Hello." }),
    });
    expect([response.status, await response.json()]).toMatchObject([
      502,
      { error: { code: "local_engine_failed", message: "The local engine could not be reached." } },
    ]);
  });

  test("keeps the status and the engine's own words", () => {
    expect(shownAs(ofLocalEngine(failure("timed_out", "slow")))).toEqual({
      status: 504,
      code: "local_engine_failed",
      message: "The local engine did not answer in time.",
    });
    expect(shownAs(ofLocalEngine(failure("overloaded", "full", { status: 503 }))).status).toBe(503);
    const codecs = "The upstream does not answer in the format 'opus', and this gateway has no codecs to make it.";
    expect(shownAs(ofLocalEngine(failure("unsupported", "no codecs", { message: codecs }))).message).toStartWith(
      "The local engine does not",
    );
    expect(shownAs(ofLocalEngine(failure("invalid_request", "no", { message: "The audio is empty.", status: 400 }))).message).toBe(
      "The audio is empty.",
    );
  });
});
