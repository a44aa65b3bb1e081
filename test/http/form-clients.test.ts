import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createReadStream, mkdtempSync, openAsBlob, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI, { APIError, toFile } from "openai";
import { framed, hashOf, openFormServer, type FormServer, type Seen } from "../support/form-server.ts";
import { rawRequest } from "../support/raw-request.ts";

setDefaultTimeout(60_000);

let server: FormServer;
let client: OpenAI;
let folder: string;

const sound = Buffer.concat([Buffer.from("RIFF\x24\0\0\0WAVEfmt \x10\0\0\0", "latin1"), Buffer.alloc(2_500_000, "\r\n--sound")]);
const named = 'na"ïve 日本.wav';

beforeAll(() => {
  server = openFormServer({ fileBytesMax: 4_000_000 });
  client = new OpenAI({ apiKey: "key", baseURL: server.url.replace("/audio/transcriptions", ""), maxRetries: 0 });
  folder = mkdtempSync(join(tmpdir(), "sluice-clients-"));
  writeFileSync(join(folder, "speech.wav"), sound);
  writeFileSync(join(folder, named), sound);
  writeFileSync(join(folder, "large.wav"), Buffer.alloc(9_000_000, 1));
  writeFileSync(join(folder, "script.mjs"), nodeScript);
});

afterAll(async () => {
  expect(readdirSync(server.directory)).toEqual([]);
  expect(server.openFiles()).toBe(0);
  await server.close();
  rmSync(folder, { recursive: true });
});

function expectSound(seen: unknown, more: Partial<Seen> = {}): void {
  expect(seen).toMatchObject({ length: sound.length, hash: hashOf(sound), ...more });
}

describe("the official library", () => {
  test("uploads a stream of a file", async () => {
    const seen = await client.audio.transcriptions.create({ model: "m", file: createReadStream(join(folder, "speech.wav")) });
    expectSound(seen, { fileName: "speech.wav", fields: [{ name: "model", value: "m" }] });
  });

  test("uploads bytes, under a name of any kind", async () => {
    const seen = await client.audio.transcriptions.create({ model: "m", file: await toFile(sound, named, { type: "audio/wav" }) });
    expectSound(seen, { fileName: named, fileType: "audio/wav" });
  });

  test("uploads a File, a Blob of the disk and the body of a response", async () => {
    expectSound(await client.audio.transcriptions.create({ model: "m", file: new File([sound], "a.wav") }), { fileName: "a.wav" });
    const blob = await openAsBlob(join(folder, "speech.wav"));
    expectSound(await client.audio.transcriptions.create({ model: "m", file: await toFile(blob, "b.wav") }), { fileName: "b.wav" });
    expectSound(await client.audio.transcriptions.create({ model: "m", file: await toFile(new Response(sound), "c.wav") }), {
      fileName: "c.wav",
    });
  });

  test("sends lists and objects, which arrive as it sent them", async () => {
    const seen = (await client.audio.transcriptions.create({
      model: "m",
      file: new File([sound], "a.wav"),
      timestamp_granularities: ["word", "segment"],
      chunking_strategy: { type: "server_vad", threshold: 0.5 },
      stream: false,
    })) as unknown as Seen;
    expect(seen.fields.toSorted((a, b) => a.name.localeCompare(b.name))).toEqual([
      { name: "chunking_strategy[threshold]", value: "0.5" },
      { name: "chunking_strategy[type]", value: "server_vad" },
      { name: "model", value: "m" },
      { name: "stream", value: "false" },
      { name: "timestamp_granularities[]", value: "word" },
      { name: "timestamp_granularities[]", value: "segment" },
    ]);
  });

  test.each([5_000_000, 60_000_000])("learns that its file of %p bytes is too large", async (bytes) => {
    const error = await client.audio.transcriptions
      .create({ model: "m", file: new File([Buffer.alloc(bytes)], "a.wav") })
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ status: 413, type: "server_error" });
    expect(String(error)).toContain("Maximum content size limit (4000000) exceeded");
  });
});

describe("fetch", () => {
  test("uploads a form", async () => {
    const form = new FormData();
    form.append("model", "m");
    form.append("file", new File([sound], named, { type: "audio/wav" }));
    form.append("prompt", "日本\nx");
    const seen = (await (await fetch(server.url, { method: "POST", body: form })).json()) as Seen;
    expectSound(seen, { fileName: named, fileType: "audio/wav" });
    expect(seen.fields.map(({ name }) => name)).toEqual(["model", "prompt"]);
    // A form sends its line ends as CR LF.
    expect(seen.fields[1]?.value.replace("\r\n", "\n")).toBe("日本\nx");
  });

  test.skipIf(Bun.which("node") === null)(
    "of Node uploads a form, whose body has no length where it streams (skipped without Node)",
    async () => {
      const { stdout, stderr } = await run(["node", join(folder, "script.mjs"), server.url, join(folder, named)]);
      expect(stderr).toBe("");
      for (const seen of JSON.parse(stdout) as unknown[]) expectSound(seen, { fileName: named });
    },
  );
});

const nodeScript = `
import { openAsBlob } from "node:fs";
const [url, path] = process.argv.slice(2);
const form = new FormData();
form.append("model", "m");
form.append("file", await openAsBlob(path, { type: "audio/wav" }), path.split("/").at(-1));
const whole = await fetch(url, { method: "POST", body: form });
const request = new Request(url, { method: "POST", body: form });
const streamed = await fetch(url, { method: "POST", body: request.body, duplex: "half", headers: { "content-type": request.headers.get("content-type") } });
console.log(JSON.stringify([await whole.json(), await streamed.json()]));
`;

describe.skipIf(Bun.which("curl") === null)("curl (skipped where there is none)", () => {
  const curl = async (...more: readonly string[]): Promise<unknown> => {
    const { stdout } = await run(["curl", "--silent", "--max-time", "20", server.url, ...more]);
    return JSON.parse(stdout) as unknown;
  };

  test("uploads a file by its name", async () => {
    expectSound(await curl("-F", `file=@${join(folder, "speech.wav")}`, "-F", "model=m"), {
      fileName: "speech.wav",
      fileType: "application/octet-stream",
    });
  });

  test("uploads a file whose name has quotes and other languages in it", async () => {
    expectSound(await curl("-F", "model=m", "-F", `file=@"${join(folder, named).replaceAll('"', '\\"')}";type=audio/x-wav`), {
      fileName: named,
      fileType: "audio/x-wav",
    });
  });

  test("uploads without a length", async () => {
    const seen = await curl("-H", "Transfer-Encoding: chunked", "-F", `file=@${join(folder, "speech.wav")}`, "-F", "model=m");
    expectSound(seen, { fileName: "speech.wav" });
  });

  test("that forgets the @ is told", async () => {
    expect(await curl("-F", "file=speech.wav", "-F", "model=m")).toMatchObject({
      error: { param: "file", message: expect.stringContaining("with the @") },
    });
  });

  test.each(["Expect:", "Transfer-Encoding: chunked"])("reads the answer while its file is too large (%s)", async (header) => {
    const answer = await curl("-H", header, "-F", `file=@${join(folder, "large.wav")}`, "-F", "model=m");
    expect(answer).toMatchObject({ error: { type: "server_error", message: expect.stringContaining("Maximum content size limit") } });
  });
});

describe("libraries of other languages", () => {
  test.each([
    ["httpx", `Content-Disposition: form-data; name="file"; filename="na%22ïve 日本.wav"\r\nContent-Type: audio/x-wav`],
    ["urllib3, today", `Content-Disposition: form-data; name="file"; filename="na%22ïve 日本.wav"`],
    ["urllib3, of old", `Content-Disposition: form-data; name="file"; filename*=utf-8''na%22%C3%AFve%20%E6%97%A5%E6%9C%AC.wav`],
    [
      "aiohttp",
      `Content-Type: audio/x-wav\r\nContent-Disposition: form-data; name="file"; filename="na\\"ïve 日本.wav"; filename*=utf-8''na%22%C3%AFve%20%E6%97%A5%E6%9C%AC.wav`,
    ],
    ["form-data of Node", `Content-Disposition: form-data; name="file"; filename="na"ïve 日本.wav"\r\nContent-Type: audio/wave`],
    [
      "OkHttp",
      `Content-Disposition: form-data; name="file"; filename="na%22ïve 日本.wav"\r\nContent-Type: audio/wav\r\nContent-Length: ${sound.length}`,
    ],
    [
      "Spring",
      `Content-Disposition: form-data; name="file"; filename="na\\"ïve 日本.wav"\r\nContent-Type: audio/wav\r\nContent-Transfer-Encoding: binary`,
    ],
    [
      ".NET",
      `Content-Type: audio/wav\r\nContent-Disposition: form-data; name=file; filename="na%22ïve 日本.wav"; filename*=utf-8''na%22%C3%AFve%20%E6%97%A5%E6%9C%AC.wav`,
    ],
  ])("as %s frames it", async (_, headers) => {
    const boundary = "0123456789abcdef";
    const response = await rawRequest(server.url, {
      body: framed([{ headers, content: sound }], boundary),
      headers: { "Content-Type": `multipart/form-data; boundary="${boundary}"` },
    });
    expectSound(response.json(), { fileName: named });
  });

  const python = Bun.which("python3");
  const hasRequests = python !== null && Bun.spawnSync([python, "-c", "import requests"]).success;
  test.skipIf(!hasRequests)("as requests of Python sends it (skipped without it)", async () => {
    const script = `import requests,sys
url, path, name = sys.argv[1:]
print(requests.post(url, files={"file": (name, open(path, "rb"), "audio/wav")}, data={"model": "m", "include[]": ["a", "b"]}, timeout=20).text)`;
    const { stdout } = await run([python ?? "", "-c", script, server.url, join(folder, "speech.wav"), named]);
    expectSound(JSON.parse(stdout), {
      fileName: named,
      fields: [
        { name: "model", value: "m" },
        { name: "include[]", value: "a" },
        { name: "include[]", value: "b" },
      ],
    });
  });
});

async function run(command: readonly string[]): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const child = Bun.spawn([...command], {
    stdout: "pipe",
    stderr: "pipe",
    timeout: 55_000,
    env: { ...process.env, NODE_NO_WARNINGS: "1" },
  });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  return { stdout, stderr };
}
