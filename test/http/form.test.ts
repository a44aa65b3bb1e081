import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync } from "node:fs";
import fc from "fast-check";
import { formSplitter } from "../../src/http/forms/form-splitter.ts";
import { UploadPace } from "../../src/http/forms/upload-pace.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { listIn } from "../../src/operations/transcription/form-lists.ts";
import { eventually } from "../support/eventually.ts";
import { field, file, framed, hashOf, openFormServer, type FormServer, type Seen, type SentPart } from "../support/form-server.ts";
import { anyText } from "../support/properties.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { openRequest, rawRequest, type RawOptions } from "../support/raw-request.ts";
import { RawResponse } from "../support/raw-response.ts";

setDefaultTimeout(60_000);

let server: FormServer;

beforeAll(() => {
  server = openFormServer();
});

afterAll(async () => {
  expect(server.openFiles()).toBe(0);
  expect(readdirSync(server.directory)).toEqual([]);
  await server.close();
});

const boundary = "----boundary1234";
const type = `multipart/form-data; boundary=${boundary}`;
const wav = Buffer.from("RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0", "latin1");
const plain: readonly SentPart[] = [field("model", "whisper-1"), file(wav)];

interface FormAnswer {
  readonly status: number;
  readonly seen: Seen;
  readonly error: { readonly message: string; readonly type: string; readonly code: string | null; readonly param: string | null };
}

async function post(body: Uint8Array | string, options: RawOptions & { readonly type?: string | null } = {}): Promise<FormAnswer> {
  const { type: sent = type, ...more } = options;
  return answerOf(await rawRequest(server.url, { body, headers: sent === null ? {} : { "Content-Type": sent }, ...more }));
}

function answerOf(response: RawResponse): FormAnswer {
  const body = JSON.parse(response.text) as Seen & Pick<FormAnswer, "error">;
  return { status: response.status, seen: body, error: body.error };
}

function send(parts: readonly SentPart[], options: RawOptions = {}): Promise<FormAnswer> {
  return post(framed(parts, boundary), options);
}

describe("a form", () => {
  test("gives its fields and its file, and counts its bytes", async () => {
    const body = framed(plain, boundary);
    const { status, seen } = await post(body);
    expect(status).toBe(200);
    expect(seen).toEqual({
      fields: [{ name: "model", value: "whisper-1" }],
      fileName: "speech.wav",
      fileType: "audio/wav",
      length: wav.length,
      headLength: wav.length,
      hash: hashOf(wav),
      bytes: body.length,
    });
  });

  test("may have its model behind the file, however large that is", async () => {
    const large = Buffer.alloc(3_000_000, "sound ");
    const { seen } = await send([file(large), field("model", "late")]);
    expect(seen).toMatchObject({ fields: [{ name: "model", value: "late" }], length: large.length, headLength: 4096, hash: hashOf(large) });
  });

  test.each(["known_speaker_references[]", "known_speaker_references"])(
    "may have recordings of four speakers (%s), each of ten seconds as a WAV of 48 kHz in stereo",
    async (name) => {
      const recordings = ["A", "B", "C", "D"].map((letter) => `data:audio/wav;base64,${letter.repeat(2_560_060)}`);
      const isList = name.endsWith("[]");
      const parts = isList ? recordings.map((each) => field(name, each)) : [field(name, JSON.stringify(recordings))];
      const { status, seen } = await send([...parts, file(wav)]);
      expect(status).toBe(200);
      expect(listIn(seen.fields, "known_speaker_references")).toEqual(recordings);
    },
  );

  test("keeps its fields as they were sent: the order, repetitions, line ends, blanks, an empty value, any language", async () => {
    const fields = [
      ["prompt", " two\r\nlines\n "],
      ["timestamp_granularities[]", "word"],
      ["timestamp_granularities[]", "segment"],
      ["language", ""],
      ["chunking_strategy[type]", "server_vad"],
      ["prompt", "\uFEFF日本語 ✓\0"],
      ["__proto__", "1"],
    ] as const;
    const { seen } = await send([
      ...fields.slice(0, 3).map(([name, value]) => field(name, value)),
      file(wav),
      ...fields.slice(3).map(([name, value]) => field(name, value)),
    ]);
    expect(seen.fields.map(({ name, value }) => [name, value])).toEqual(fields.map((pair) => [...pair]));
  });

  test("may have a preamble, an epilogue, blanks behind its boundaries and folded headers", async () => {
    const body = [
      "This is a form.\r\n--another\r\n",
      `--${boundary} \t \r\nContent-Disposition: form-data;\r\n  name="model"\r\nX-More: 1\r\n\r\nm\r\n`,
      `--${boundary}\r\ncontent-disposition:FORM-DATA; NAME=file; FileName=a.mp3\r\n\r\nabc\r\n--${boundary}--  \r\nThe end.`,
    ].join("");
    const { seen } = await post(body);
    expect(seen).toMatchObject({
      fields: [{ name: "model", value: "m" }],
      fileName: "a.mp3",
      fileType: null,
      hash: hashOf(Buffer.from("abc")),
    });
  });

  test("may hold what looks like a boundary, and is not one", async () => {
    const content = `\r\n--${boundary}x\r\n--${boundary}- \r\n--${boundary.slice(0, -1)}\r\n--${boundary} x\r\n\r\n--`;
    const { seen } = await send([file(content), field("model", content)]);
    expect(seen.hash).toBe(hashOf(Buffer.from(content)));
    expect(seen.fields[0]?.value).toBe(content);
  });

  test("may have a part without content, with and without the line end that should follow its headers", async () => {
    const bare = `--${boundary}\r\n${field("a", "").headers}\r\n\r\n--${boundary}\r\n${field("b", "").headers}\r\n\r\n\r\n`;
    const { seen } = await post(bare + framed([file(wav)], boundary).toString("latin1"));
    expect(seen.fields).toEqual([
      { name: "a", value: "" },
      { name: "b", value: "" },
    ]);
  });

  test("may come in chunks, without a length", async () => {
    const { status, seen } = await send(plain, { chunked: true });
    expect([status, seen.hash]).toEqual([200, hashOf(wav)]);
  });

  test.each([
    ["quoted", `multipart/form-data; boundary="a b:c/d=e"`, "a b:c/d=e"],
    ["in another case, behind another parameter", `Multipart/Form-Data; charset=utf-8;BOUNDARY=xyz`, "xyz"],
    ["of one sign", "multipart/form-data; boundary=-", "-"],
    ["longer than it should be", `multipart/form-data; boundary=${"b".repeat(200)}`, "b".repeat(200)],
  ])("may have a boundary that is %s", async (_, contentType, mark) => {
    const { status, seen } = await post(framed(plain, mark), { type: contentType });
    expect([status, seen.hash]).toEqual([200, hashOf(wav)]);
  });
});

describe("wherever the network cuts it, a form reads the same", () => {
  const parts = [field("model", "m\r\n--"), file(`\r\n--${boundary}-\r\r\n\r\n-sound\r`, "é.wav"), field("last", "\r\n")];
  const body = framed(parts, boundary);

  test("at each byte", async () => {
    const whole = (await post(body)).seen;
    expect(whole.fields).toHaveLength(2);
    const head = `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`;
    for (let from = 0; from < body.length; from += 32) {
      const cuts = Array.from({ length: Math.min(32, body.length - from) }, (_, offset) => from + offset);
      const connections = await Promise.all(cuts.map(() => RawConnection.open(server.url)));
      const begun = server.begun();
      await Promise.all(
        connections.map((connection, index) => connection.send(Buffer.concat([Buffer.from(head), body.subarray(0, cuts[index])]))),
      );
      // The rest goes out only after the beginning was taken in, so that the server cannot see both as one.
      await eventually("all are read", () => server.begun() === begun + cuts.length);
      const answers = await Promise.all(
        connections.map(async (connection, index) => {
          await connection.send(body.subarray(cuts[index]));
          return answerOf(await connection.receive(new RawResponse())).seen;
        }),
      );
      for (const connection of connections) connection.close();
      expect(answers).toEqual(cuts.map(() => whole));
    }
  });

  test("at every byte at once", async () => {
    const whole = (await post(body)).seen;
    expect((await post(body, { sendByteMs: 1 })).seen).toEqual(whole);
  });

  test("in any pieces, with any boundary, any fields and any file", () => {
    const text = fc.stringMatching(/^[\x20-\x7e]{0,30}[\x21-\x7e]$/);
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      // What a boundary is made of, in all arrangements.
      fc
        .array(fc.constantFrom("\r", "\n", "-", "--", "\r\n--", "a", "\r\n"), { maxLength: 40 })
        .map((pieces) => Buffer.from(pieces.join(""))),
    );
    const scenario = fc.record({
      mark: text,
      contents: fc.array(bytes, { minLength: 1, maxLength: 5 }),
      cuts: fc.array(fc.nat(), { maxLength: 12 }),
    });
    fc.assert(
      fc.property(scenario, ({ mark, contents, cuts }) => {
        // No sender may choose a boundary that is in its content.
        fc.pre(!contents.some((content) => Buffer.from(content).includes(`--${mark}`)));
        const sent = framed(
          contents.map((content, index) => field(`n${index}`, content)),
          mark,
        );
        expect(split(sent, mark, cuts)).toEqual(
          contents.map((content, index) => [field(`n${index}`, "").headers, Buffer.from(content).toString("latin1")]),
        );
      }),
      { numRuns: 500 },
    );
  });

  test("over a socket, in any writes", async () => {
    const scenario = fc.record({
      fields: fc.array(fc.tuple(fc.stringMatching(/^[a-z[\]_]{1,20}$/), anyText({ maxLength: 200 })), { maxLength: 6 }),
      content: fc.uint8Array({ minLength: 1, maxLength: 5_000 }),
      filePlace: fc.nat({ max: 6 }),
      cuts: fc.array(fc.nat(), { maxLength: 6 }),
    });
    await fc.assert(
      fc.asyncProperty(scenario, async ({ fields, content, filePlace, cuts }) => {
        const named = fields.filter(([name]) => name !== "file");
        const parts = named.map(([name, value]) => field(name, value)).toSpliced(filePlace, 0, file(content));
        const sent = framed(parts, boundary);
        const connection = await RawConnection.open(server.url);
        try {
          await connection.send(
            Buffer.from(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${sent.length}\r\n\r\n`),
          );
          for (const piece of piecesOf(sent, cuts)) {
            await connection.send(piece);
            await new Promise((resolve) => setImmediate(resolve));
          }
          const { seen } = answerOf(await connection.receive(new RawResponse()));
          expect(seen.fields).toEqual(named.map(([name, value]) => ({ name, value })));
          expect(seen.hash).toBe(hashOf(content));
        } finally {
          connection.close();
        }
      }),
      { numRuns: 60 },
    );
  });
});

function piecesOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
}

function split(bytes: Buffer, mark: string, cuts: readonly number[]): [headers: string, content: string][] {
  const splitter = formSplitter(mark);
  const parts: [string, string][] = [];
  let [headers, content] = ["", ""];
  for (const chunk of piecesOf(bytes, cuts)) {
    for (const piece of splitter.pieces(chunk)) {
      if (piece.kind === "headers") [headers, content] = [Buffer.from(piece.block).toString(), ""];
      else if (piece.kind === "content") content += Buffer.from(piece.bytes).toString("latin1");
      else if (piece.kind === "part-end") parts.push([headers, content]);
    }
  }
  expect(splitter.closed).toBe(true);
  return parts;
}

describe("the name of a file", () => {
  const named = async (disposition: string, more = "", content: Uint8Array | string = "abc"): Promise<string> => {
    const { seen } = await send([{ headers: `Content-Disposition: form-data; name="file"; ${disposition}${more}`, content }]);
    return seen.fileName;
  };

  test.each([
    ["as it is", `filename="a b;c.mp3"`, "a b;c.mp3"],
    ["in UTF-8", `filename="naïve 日本.wav"`, "naïve 日本.wav"],
    ["with escaped quotes", String.raw`filename="my \"best\" one.wav"`, 'my "best" one.wav'],
    ["with quotes as browsers send them", `filename="my %22best%22 one.wav"`, 'my "best" one.wav'],
    ["with quotes that were not escaped at all", `filename="my "best" one.wav"`, 'my "best" one.wav'],
    ["with a percent sign of its own", `filename="100%25 %41.wav"`, "100%25 %41.wav"],
    ["in the extended form", `filename*=utf-8''na%C3%AFve%20%22x%22.wav`, 'naïve "x".wav'],
    ["in both forms, of which the extended one says more", `filename="na_ve.wav"; filename*=UTF-8'en'na%C3%AFve.wav`, "naïve.wav"],
    ["in Latin 1, extended", `filename*=iso-8859-1''na%EFve.wav`, "naïve.wav"],
    ["in an extended form that cannot be read", `filename="plain.wav"; filename*=utf-8''%FF%zz.wav`, "plain.wav"],
    ["without its folders", `filename="../../etc/a.wav"`, "a.wav"],
    ["without folders of Windows", String.raw`filename="C:\Users\me\new.wav"`, "new.wav"],
    ["without folders in the extended form", `filename*=utf-8''..%2F..%2Fetc%2Fa.wav`, "a.wav"],
    ["without control characters", `filename="a%0d%0ab.wav"`, "ab.wav"],
    ["without control characters in the extended form", `filename*=utf-8''a%00%0A%C2%85b.wav`, "ab.wav"],
    ["without quotes around it", `filename=voice.ogg`, "voice.ogg"],
  ])("is kept %s", async (_, disposition, name) => {
    expect(await named(disposition)).toBe(name);
  });

  test("in Latin 1 bytes is read as such", async () => {
    const part = Buffer.concat([
      Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="na\xEFve.wav"\r\n\r\nabc\r\n--${boundary}--`,
        "latin1",
      ),
    ]);
    expect((await post(part)).seen.fileName).toBe("naïve.wav");
  });

  test("that is too long is cut to 255 bytes, and keeps its extension", async () => {
    const name = await named(`filename="${"日".repeat(200)}.flac"`);
    expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
    expect(name).toMatch(/^日{83}\.flac$/);
  });

  test.each([
    ["its first bytes", `filename=""`, "\r\nContent-Type: audio/mpeg", wav, "audio.wav"],
    ["its type", `filename=""`, "\r\nContent-Type: audio/webm;codecs=opus", "abc", "audio.webm"],
    ["its type, where it is the name of a folder", `filename="dir/.."`, "\r\nContent-Type: audio/x-m4a", "abc", "audio.m4a"],
    ["nothing", `filename="/"`, "", "abc", "audio.bin"],
    ["its type, where it has no name at all", "x=1", "\r\nContent-Type: audio/flac", "abc", "audio.flac"],
    ["its first bytes, where it has neither name nor type", "x=1", "", wav, "audio.wav"],
  ])("is invented from %s", async (_, disposition, more, content, name) => {
    expect(await named(disposition, more, content)).toBe(name);
  });

  test("comes with the type of its part as it was sent, or null", async () => {
    const typed = async (value: string) => (await send([file(wav, "a.wav", value)])).seen.fileType;
    expect(await typed("Audio/WebM; codecs=opus")).toBe("Audio/WebM; codecs=opus");
    expect(await typed("audio/日本")).toBeNull();
    expect(await typed("")).toBeNull();
  });
});

describe("refused, with the fix in the message:", () => {
  const headers = (block: string): SentPart => ({ headers: block, content: "x" });
  const many = Array.from({ length: 101 }, (_, index) => field(`f${index}`, "1"));

  test.each<readonly [what: string, parts: readonly SentPart[], message: RegExp, param: string | null]>([
    ["no file", [field("model", "m")], /curl -F file=@/, "file"],
    ["no part at all", [], /no 'file'/, "file"],
    ["two files", [file(wav), file(wav)], /more than one 'file'/, "file"],
    ["the file as a plain field", [field("file", "speech.wav")], /send it as a file part.*curl -F file=@/, "file"],
    [
      "the file as text",
      [headers(`Content-Disposition: form-data; name="file"\r\nContent-Type: text/plain`)],
      /send it as a file part/,
      "file",
    ],
    ["an empty file", [file("")], /is empty/, "file"],
    ["a part without a name", [headers("Content-Disposition: form-data"), file(wav)], /has no name/, null],
    ["an empty name", [field("", "x"), file(wav)], /has no name/, null],
    ["a part without headers", [headers("X: y"), file(wav)], /has no name/, null],
    ["a part that is no form data", [headers(`Content-Disposition: attachment; name="a"`), file(wav)], /malformed/, null],
    ["a name that never ends", [headers(`Content-Disposition: form-data; name="a`), file(wav)], /malformed/, null],
    ["two names", [headers(`Content-Disposition: form-data; name="a"; name="file"`), file(wav)], /malformed/, null],
    [
      "a disposition twice",
      [headers(`Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="b"`)],
      /malformed/,
      null,
    ],
    ["a line that is no header", [headers(`Content-Disposition: form-data; name="a"\r\nnonsense`)], /malformed/, null],
    ["a line end in a name", [field("a%0D%0Ab", "x"), file(wav)], /malformed/, null],
    ["too many fields", [...many, file(wav)], /too many fields/, null],
    ["a value too large", [field("prompt", "p".repeat(262_145)), file(wav)], /'prompt' is too large/, "prompt"],
    [
      "recordings of speakers too large together",
      [
        ...Array.from({ length: 5 }, () => field("known_speaker_references[]", `data:audio/wav;base64,${"A".repeat(2_600_000)}`)),
        file(wav),
      ],
      /'known_speaker_references\[\]' is too large: at most 12288 KiB/,
      "known_speaker_references[]",
    ],
    ["a name too long", [field("n".repeat(201), "x"), file(wav)], /name of a field.*too long/, null],
    ["fields too large together", [...Array.from({ length: 5 }, () => field("p", "x".repeat(220_000))), file(wav)], /all together/, null],
    [
      "part headers too long",
      [headers(`Content-Disposition: form-data; name="a"\r\nX: ${"x".repeat(16_384)}`), file(wav)],
      /headers.*too long/,
      null,
    ],
    [
      "base64",
      [headers(`Content-Disposition: form-data; name="file"; filename="a"\r\nContent-Transfer-Encoding: base64`)],
      /'base64'.*binary/,
      "file",
    ],
    [
      "quoted-printable",
      [headers(`Content-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: Quoted-Printable`)],
      /in binary/,
      "a",
    ],
    [
      "another file",
      [file(wav), headers(`Content-Disposition: form-data; name="image"; filename="a.png"`)],
      /'image'.*send the audio as 'file'/,
      "image",
    ],
    ["a value that is not UTF-8", [field("prompt", Buffer.of(0xff, 0xfe)), file(wav)], /'prompt' is not valid UTF-8/, "prompt"],
  ])("%s", async (_, parts, message, param) => {
    const { status, error } = await send(parts);
    expect(status).toBe(400);
    expect(error.message).toMatch(message);
    expect(error).toMatchObject({ type: "invalid_request_error", param });
  });

  test("but not what is just within the bounds", async () => {
    const fields = Array.from({ length: 100 }, (_, index) => field(`f${index}`, "1"));
    expect((await send([...fields, file(wav)])).status).toBe(200);
    expect((await send([field("n".repeat(200), "p".repeat(262_144)), file(wav)])).status).toBe(200);
    const long: SentPart = { headers: `Content-Disposition: form-data; name="a"\r\nX: ${"x".repeat(16_000)}`, content: "" };
    expect((await send([long, file(wav)])).status).toBe(200);
  });

  test.each([
    ["JSON", "application/json", 415],
    ["another form", "application/x-www-form-urlencoded", 415],
    ["another multipart type", "multipart/mixed; boundary=x", 415],
    ["no type", null, 415],
    ["no boundary", "multipart/form-data", 400],
    ["an empty boundary", "multipart/form-data; boundary=", 400],
    ["an empty boundary in quotes", 'multipart/form-data; boundary=""', 400],
    ["two boundaries", "multipart/form-data; boundary=a; boundary=b", 400],
    ["a boundary with a line in it", "multipart/form-data; boundary=\xe9", 400],
    ["a boundary far too long", `multipart/form-data; boundary=${"b".repeat(201)}`, 400],
    ["a boundary that never ends", 'multipart/form-data; boundary="abc', 400],
  ] as const)("%s as the content type", async (_, contentType, status) => {
    const answer = await post(framed(plain, boundary), { type: contentType });
    expect(answer.status).toBe(status);
    expect(answer.error.message).toMatch(/multipart\/form-data/);
    expect(answer.error.code).toBe(status === 415 ? "unsupported_media_type" : null);
  });

  test("a body that ends before its form does, wherever that is", async () => {
    const body = framed(plain, boundary);
    const closing = body.length - "--\r\n".length;
    for (let length = 0; length <= closing + 1; length += 1) {
      const { status, error } = await post(body.subarray(0, length), {
        headers: { "Content-Type": type, "Content-Length": String(length) },
      });
      expect([length, status]).toEqual([length, 400]);
      expect(error.message).toMatch(/not complete/);
    }
    expect((await post(body.subarray(0, closing + 2))).status).toBe(200);
  });

  test("a body without the boundary that was announced, or with bare line feeds", async () => {
    expect((await post(framed(plain, "another"))).error.message).toMatch(/closing boundary/);
    expect((await post(framed(plain, boundary).toString("latin1").replaceAll("\r\n", "\n"))).error.message).toMatch(/CR LF/);
    expect((await post("")).error.message).toMatch(/not complete/);
  });

  test("a body longer than was declared, of which only the declared part counts", async () => {
    const body = framed(plain, boundary);
    const { status } = await post(body, { headers: { "Content-Type": type, "Content-Length": String(body.length - 10) } });
    expect(status).toBe(400);
  });
});

describe("a file that is too large", () => {
  const limited = async (parts: readonly SentPart[], options: RawOptions = {}, fileBytesMax = 3_000_000) => {
    const small = openFormServer({ fileBytesMax });
    try {
      const response = await rawRequest(small.url, { body: framed(parts, boundary), headers: { "Content-Type": type }, ...options });
      await eventually("nothing is open", () => small.openFiles() === 0);
      expect(readdirSync(small.directory)).toEqual([]);
      return { answer: answerOf(response), outcome: small.outcomes[0] };
    } finally {
      await small.close();
    }
  };

  test.each([false, true])("is refused with the message of the OpenAI API (chunked: %p)", async (chunked) => {
    const { answer } = await limited([file(Buffer.alloc(3_000_001, 1)), field("model", "m")], { chunked });
    expect(answer.status).toBe(413);
    expect(answer.error).toMatchObject({ type: "server_error", code: null, param: null });
    expect(answer.error.message).toMatch(/^Maximum content size limit \(3000000\) exceeded \(\d+ bytes read\)$/);
    expect(Number(/\((\d+) bytes/.exec(answer.error.message)?.[1])).toBeGreaterThan(3_000_000);
  });

  test("is not too large at the limit itself", async () => {
    const { answer } = await limited([file(Buffer.alloc(3_000_000, 1))]);
    expect([answer.status, answer.seen.length]).toEqual([200, 3_000_000]);
  });

  test("is refused before any of it is read, where its length tells", async () => {
    const small = openFormServer({ fileBytesMax: 1000 });
    const declared = 1000 + 14 * 1024 * 1024 + 1;
    try {
      const head = `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${declared}\r\n\r\n`;
      const call = await openRequest(small.url, { bytes: head });
      await call.untilHead();
      await eventually("the answer", () => call.response.bodyLength > 0);
      expect(answerOf(call.response)).toMatchObject({
        status: 413,
        error: { message: `Maximum content size limit (1000) exceeded (${declared} bytes read)` },
      });
      call.abort();
      await call.ended;
    } finally {
      await small.close();
    }
  });

  test("is refused while it is still being sent, and what is sent on is not kept", async () => {
    const small = openFormServer({ fileBytesMax: 2_000_000 });
    const connection = await RawConnection.open(small.url);
    try {
      const part = `--${boundary}\r\n${file("").headers}\r\n\r\n`;
      await connection.send(Buffer.from(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`));
      await connection.send(Buffer.from(`${part.length.toString(16)}\r\n${part}\r\n`));
      const piece = Buffer.concat([Buffer.from("10000\r\n"), Buffer.alloc(65_536, 7), Buffer.from("\r\n")]);
      const response = new RawResponse();
      const received = connection.receive(response);
      let sent = 0;
      while (small.outcomes.length === 0 && sent < 64_000_000) {
        await connection.send(piece);
        sent += 65_536;
      }
      await eventually("the answer", () => response.bodyLength > 0);
      expect(answerOf(response).status).toBe(413);
      expect(sent).toBeLessThan(16_000_000);
      await eventually("nothing is open", () => small.openFiles() === 0);
      connection.close();
      await received;
    } finally {
      connection.close();
      await small.close();
    }
  });

  test("counts everything around it too, without an end", async () => {
    const { answer } = await limited([field("a", "b"), file(wav)], { body: Buffer.alloc(3_000_000, "preamble "), chunked: true }, 1000);
    expect(answer.status).toBe(413);
  });
});

/** A clock whose timers ring when the test says so. */
function handClock() {
  const timers = new Map<number, { readonly ms: number; readonly rings: () => void }>();
  let armed = 0;
  return {
    get armed() {
      return armed;
    },
    after: (ms: number, rings: () => void): (() => void) => {
      const id = (armed += 1);
      timers.set(id, { ms, rings });
      return () => void timers.delete(id);
    },
    waiting: (ms?: number): number => [...timers.values()].filter((timer) => ms === undefined || timer.ms === ms).length,
    ring: (ms: number): void => {
      const [id, timer] = [...timers].find(([, each]) => each.ms === ms) ?? [];
      if (id === undefined || timer === undefined) throw new Error(`no timer of ${ms} ms waits`);
      timers.delete(id);
      timer.rings();
    },
  };
}

describe("a body that does not come", () => {
  test("ends in 408 once its time is up, wherever it stopped, and leaves nothing", async () => {
    const body = framed([field("model", "m"), file(Buffer.alloc(2_000_000, 1))], boundary);
    for (const length of [0, 30, 80, 1000, 1_900_000]) {
      const clock = handClock();
      const slow = openFormServer({ readMs: 300_000, after: clock.after });
      try {
        const head = `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`;
        const call = await openRequest(slow.url, { bytes: Buffer.concat([Buffer.from(head), body.subarray(0, length)]) });
        await eventually("it is read", () => clock.waiting(300_000) === 1 && (length < 1_500_000 || slow.openFiles() === 1));
        clock.ring(300_000);
        const answer = answerOf(await call.ended);
        expect(answer).toMatchObject({ status: 408, error: { message: "The request body was not complete within 300 seconds." } });
        await eventually("nothing is open", () => slow.openFiles() === 0);
      } finally {
        await slow.close();
      }
    }
  });

  test("does not count against a form that is complete", async () => {
    const clock = handClock();
    const other = openFormServer({ after: clock.after });
    try {
      await rawRequest(other.url, { body: framed(plain, boundary), headers: { "Content-Type": type } });
      await rawRequest(other.url, { body: "x", headers: { "Content-Type": type } });
      expect(clock.armed).toBeGreaterThanOrEqual(4);
      expect(clock.waiting()).toBe(0);
    } finally {
      await other.close();
    }
  });

  test("ends in 408 when nothing of it comes for 20 seconds, wherever it stopped", async () => {
    const body = framed([field("model", "m"), file(Buffer.alloc(2_000_000, 1))], boundary);
    for (const length of [0, 30, 1000, 1_900_000]) {
      const clock = handClock();
      const slow = openFormServer({ readMs: 300_000, after: clock.after });
      try {
        const head = `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`;
        const call = await openRequest(slow.url, { bytes: Buffer.concat([Buffer.from(head), body.subarray(0, length)]) });
        await eventually("it waits", () => clock.waiting(20_000) === 1 && (length < 1_500_000 || slow.openFiles() === 1));
        clock.ring(20_000);
        expect(answerOf(await call.ended)).toMatchObject({
          status: 408,
          error: { message: "The request body stopped arriving: nothing was received for 20 seconds." },
        });
        await eventually("nothing is open", () => slow.openFiles() === 0);
        expect(clock.waiting()).toBe(0);
      } finally {
        await slow.close();
      }
    }
  });

  test("is not late as long as some of it comes, and not while only the disk is slow", async () => {
    const clock = handClock();
    const pace = new UploadPace({ readMs: 300_000, after: clock.after }, () => {});
    for (let chunk = 0; chunk < 100; chunk += 1) {
      pace.waits();
      expect(clock.waiting(20_000)).toBe(1);
      pace.came(1);
      expect(clock.waiting(20_000)).toBe(0);
    }
    expect(pace.failure).toBeNull();
    pace.end();
    expect(clock.waiting()).toBe(0);
  });

  test("is ended where less than 1 KiB a second comes, but not at its beginning, and not while only the disk is slow", () => {
    const clock = handClock();
    let stopped = 0;
    const pace = new UploadPace({ readMs: 300_000, after: clock.after }, () => (stopped += 1));
    pace.waits();
    clock.ring(15_000);
    pace.came(15 * 1024);
    pace.waits();
    clock.ring(15_000);
    pace.came(15 * 1024 - 1);
    clock.ring(15_000);
    expect(pace.failure).toBeNull();
    pace.waits();
    pace.came(1);
    pace.waits();
    clock.ring(15_000);
    expect([stopped, pace.failure?.status, pace.failure?.publicMessage]).toEqual([
      1,
      408,
      "The request body came too slowly: less than 15 KiB of it arrived in 15 seconds.",
    ]);
    expect(clock.waiting()).toBe(0);
  });

  test("has 300 seconds for 25 MiB, and more only for what has come of a larger one", () => {
    const mebibyte = 1024 * 1024;
    for (const [mebibytes, allowedSeconds] of [
      [0, 300],
      [1, 300],
      [25, 300],
      [26, 312],
      [50, 600],
      [500, 6000],
    ] as const) {
      const clock = handClock();
      let stopped = 0;
      const pace = new UploadPace({ readMs: 300_000, after: clock.after }, () => (stopped += 1));
      pace.waits();
      pace.came(mebibytes * mebibyte);
      clock.ring(300_000);
      if (allowedSeconds > 300) {
        expect([stopped, pace.failure]).toEqual([0, null]);
        clock.ring((allowedSeconds - 300) * 1000);
      }
      expect(stopped).toBe(1);
      expect(pace.failure?.publicMessage).toBe(`The request body was not complete within ${allowedSeconds} seconds.`);
      expect(clock.waiting()).toBe(0);
    }
  });

  test("because its client left, or because it is shorter than was declared, is the client's leaving", async () => {
    for (const options of [{ halfClose: true }, { abort: "after-request" }, { abort: "after-request", abortBy: "reset" }] as const) {
      const before = server.outcomes.length;
      const body = framed(plain, boundary);
      await rawRequest(server.url, { body, headers: { "Content-Type": type, "Content-Length": String(body.length + 1) }, ...options });
      await eventually("it is noticed", () => server.outcomes.length > before);
      const outcome = server.outcomes.at(-1);
      expect(outcome !== undefined && isFailure(outcome) && outcome.kind).toBe("client_gone");
    }
  });
});
