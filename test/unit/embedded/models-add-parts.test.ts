import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { addonsFor } from "../../../packages/embedded/src/addons/table.ts";
import { BrokenArchive, tarEntries } from "../../../packages/embedded/src/addons/tarball.ts";
import { parseArguments } from "../../../src/cli/arguments.ts";
import { progressDisplay } from "../../../src/cli/models/models-progress.ts";

describe("the table of add-ons", () => {
  const platforms = ["linux-x64", "linux-arm64", "darwin-arm64"];

  test.each(platforms)("on %s pins every package and every file", (platform) => {
    const table = addonsFor(platform);
    expect(table.map(({ name }) => name)).toEqual(["whisper-tiny", "whisper-small", "kokoro", "tinyllama"]);
    for (const { packages, files } of table) {
      for (const pinned of packages) {
        expect(pinned.version).toMatch(/^\d+\.\d+\.\d+$/);
        expect(Buffer.from(pinned.integrity.replace("sha512-", ""), "base64").length).toBe(64);
        expect(pinned.bytes).toBeGreaterThan(0);
      }
      for (const file of files) {
        expect(file.sha256).toMatch(/^[0-9a-f]{64}$/);
        expect(file.pieces.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(file.bytes);
        for (const piece of file.pieces) {
          expect(piece.sha256).toMatch(/^[0-9a-f]{64}$/);
          expect(packages.map(({ name }) => name)).toContain(piece.package);
        }
        if (file.pieces.length === 1) expect(file.pieces[0]?.sha256).toBe(file.sha256);
        expect(file.path).toMatch(/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/);
      }
      expect(new Set(files.map(({ path }) => path)).size).toBe(files.length);
    }
  });

  test("lays a Whisper model out as its engine reads it", () => {
    for (const name of ["whisper-tiny", "whisper-small"]) {
      const files = addonsFor("linux-x64")
        .find((addon) => addon.name === name)
        ?.files.map(({ path }) => path);
      expect(files?.toSorted()).toEqual([
        "config.json",
        "generation_config.json",
        "onnx/decoder_model_merged_quantized.onnx",
        "onnx/encoder_model_quantized.onnx",
        "tokenizer.json",
      ]);
    }
  });

  test("gives a language model the engine of the platform, and none to a platform without one", () => {
    const enginesOf = (platform: string): readonly string[] =>
      addonsFor(platform)
        .flatMap(({ packages }) => packages.map(({ name }) => name))
        .filter((name) => name.includes("llama-cpp"));
    expect(enginesOf("linux-x64")).toEqual(["@node-llama-cpp/linux-x64"]);
    expect(enginesOf("linux-arm64")).toEqual(["@node-llama-cpp/linux-arm64"]);
    expect(enginesOf("darwin-arm64")).toEqual([]);
  });
});

interface Entry {
  readonly name: string;
  readonly contents: Uint8Array;
  readonly type?: string;
}

function tar(entries: readonly Entry[]): Buffer<ArrayBuffer> {
  const blocks = entries.map(({ name, contents, type = "0" }) => {
    const head = Buffer.alloc(512);
    head.write(name, 0, 100);
    head.write(`${contents.length.toString(8).padStart(11, "0")}\0`, 124);
    head.write("        ", 148);
    head.write(type, 156);
    head.write("ustar\u000000", 257);
    head.write(
      `${head
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, "0")}\0 `,
      148,
    );
    return Buffer.concat([head, contents, Buffer.alloc((512 - (contents.length % 512)) % 512)]);
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

function streamOf(bytes: Uint8Array, cut: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(Uint8Array.from(bytes.subarray(at, at + cut)));
      at += cut;
    },
  });
}

async function read(archive: Uint8Array, cut = 1000, skips: (index: number) => boolean = () => false): Promise<readonly Entry[]> {
  const found: Entry[] = [];
  let index = 0;
  for await (const entry of tarEntries(streamOf(archive, cut))) {
    if (skips(index++)) continue;
    const chunks: Uint8Array[] = [];
    for await (const chunk of entry.contents()) chunks.push(chunk);
    found.push({ name: entry.name, contents: new Uint8Array(Buffer.concat(chunks)) });
  }
  return found;
}

describe("an archive", () => {
  const names = fc.string({ unit: fc.constantFrom(..."abc/.-"), minLength: 1, maxLength: 90 });
  const entries = fc.array(fc.record({ name: names, contents: fc.uint8Array({ maxLength: 1500 }) }), { maxLength: 6 });

  test("is read entry by entry, however it is cut, and whichever entries are passed over", async () => {
    await fc.assert(
      fc.asyncProperty(entries, fc.integer({ min: 1, max: 700 }), fc.func(fc.boolean()), async (entries, cut, skips) => {
        const found = await read(Bun.gzipSync(tar(entries)), cut, skips);
        const kept = entries.filter((_, index) => !skips(index));
        expect(found).toEqual(kept.map(({ name, contents }) => ({ name, contents: new Uint8Array(contents) })));
      }),
      { numRuns: 60 },
    );
  });

  test("gives long names from either kind of extra head, and nothing that is not a plain file", async () => {
    const contents = Buffer.from("x");
    const long = `package/${"deep/".repeat(40)}file`;
    const record = ` path=${long}\n`;
    const pax = Buffer.from(`${record.length + 3}${record}`);
    const found = await read(
      Bun.gzipSync(
        tar([
          { name: "pax", contents: pax, type: "x" },
          { name: "short", contents },
          { name: "gnu", contents: Buffer.from(`${long}2\0`), type: "L" },
          { name: "short", contents },
          { name: "link", contents: Buffer.alloc(0), type: "2" },
          { name: "hard", contents: Buffer.alloc(0), type: "1" },
          { name: "folder/", contents: Buffer.alloc(0), type: "5" },
          { name: "plain", contents },
        ]),
      ),
    );
    expect(found.map(({ name }) => name)).toEqual([long, `${long}2`, "plain"]);
  });

  test("that is cut off or damaged anywhere is refused, never read as something else", async () => {
    const whole = tar([{ name: "package/a", contents: Buffer.alloc(700, 1) }]);
    const outcome = async (bytes: Uint8Array): Promise<string> => {
      try {
        await read(bytes);
        return "read";
      } catch (error) {
        return error instanceof BrokenArchive ? "refused" : String(error);
      }
    };
    expect(await outcome(Bun.gzipSync(whole))).toBe("read");
    for (const length of [0, 100, 511, 512, 600, 1212, 1535])
      expect(await outcome(Bun.gzipSync(whole.subarray(0, length)))).toBe("refused");
    const zipped = Bun.gzipSync(whole);
    expect(await outcome(zipped.subarray(0, zipped.length >> 1))).toBe("refused");
    expect(await outcome(Buffer.from("no archive at all"))).toBe("refused");
    for (const at of [0, 50, 130, 148, 156]) {
      const damaged = Buffer.from(whole);
      damaged[at] = (damaged[at] ?? 0) ^ 1;
      expect(await outcome(Bun.gzipSync(damaged))).toBe("refused");
    }
  });

  test("cannot ask for endless names", async () => {
    const archive = Bun.gzipSync(tar([{ name: "pax", contents: Buffer.alloc(100_000, 65), type: "x" }]));
    expect(read(archive)).rejects.toThrow("too long");
  });
});

describe("progress", () => {
  function display(isTTY: boolean): { show: (bytes: number, atMs: number) => void; end: () => void; written: () => string } {
    let now = 0;
    let written = "";
    const { show, end } = progressDisplay({ isTTY, columns: 100, write: (text) => (written += text) }, () => now);
    return {
      show(bytes, atMs) {
        now = atMs;
        show({ step: "fetching", what: "a@1.0.0", bytes, bytesTotal: 200_000_000 });
      },
      end,
      written: () => written,
    };
  }

  test("is a line every few seconds where there is no terminal, with bytes, percent and speed", () => {
    const { show, end, written } = display(false);
    for (let second = 0; second <= 10; second += 0.125) show(second * 10_000_000, second * 1000);
    end();
    expect(written()).toBe(
      [
        "Fetching a@1.0.0: 0 B of 200.0 MB, 0 %",
        "Fetching a@1.0.0: 50.0 MB of 200.0 MB, 25 %, 10.0 MB/s",
        "Fetching a@1.0.0: 100.0 MB of 200.0 MB, 50 %, 10.0 MB/s",
        "",
      ].join("\n"),
    );
  });

  test("is one line that changes on a terminal, and is gone at the end", () => {
    const { show, end, written } = display(true);
    show(0, 0);
    show(1_000_000, 50);
    show(20_000_000, 1000);
    end();
    expect(written()).toBe(
      "\r\u001B[KFetching a@1.0.0: 0 B of 200.0 MB, 0 %\r\u001B[KFetching a@1.0.0: 20.0 MB of 200.0 MB, 10 %, 20.0 MB/s\r\u001B[K",
    );
  });

  test("tells the end even when it comes soon after the line before", () => {
    const { show, written } = display(false);
    show(199_000_000, 0);
    show(200_000_000, 10);
    expect(written()).toContain("200.0 MB of 200.0 MB, 100 %");
  });
});

describe("sluice models", () => {
  const parse = (line: string): ReturnType<typeof parseArguments> => parseArguments(line.split(" "), "1.2.3");

  test.each([
    ["models", { command: "models", config: null, request: { act: "list", json: false } }],
    ["models list", { command: "models", config: null, request: { act: "list", json: false } }],
    ["models list --json -c a.yaml", { command: "models", config: "a.yaml", request: { act: "list", json: true } }],
    ["models add tiny", { command: "models", config: null, request: { act: "add", name: "tiny" } }],
    ["models remove tiny --config a.yaml", { command: "models", config: "a.yaml", request: { act: "remove", name: "tiny" } }],
  ])("«%s» is understood", (line, expected) => {
    expect(parse(line)).toMatchObject(expected);
  });

  test.each(["models add", "models remove", "models add a b", "models list a", "models add --nope a"])("«%s» is a usage error", (line) => {
    expect(parse(line)).toMatchObject({ command: "usage-error", exitCode: 64 });
  });

  test.each(["models --help", "help models", "models add --help"])("«%s» shows an example", (line) => {
    expect(parse(line)).toMatchObject({ command: "help", text: expect.stringContaining("$ sluice models add") });
  });
});
