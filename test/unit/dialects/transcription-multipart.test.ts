import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { typeOf } from "../../../src/dialects/transcripts/file-body.ts";
import { multipartBody } from "../../../src/dialects/transcripts/multipart-body.ts";
import { Spool } from "../../../src/http/forms/spool.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import type { FormFile, StoredFile } from "../../../src/media/stored-file.ts";
import { anyText } from "../../support/properties.ts";
import { bytesOf, fieldsOf, formFile, parsedForm, sent, stored, textOf } from "../../support/transcription-world.ts";

type Entries = readonly (readonly [string, string])[];

function boundaryOf(type: string): string {
  return /^multipart\/form-data; boundary=([\w-]{1,70})$/.exec(type)![1]!;
}

/** Reads a form as the standard says and no other way. */
function partsIn(bytes: Uint8Array, type: string): readonly { readonly head: string; readonly body: string }[] {
  const text = Buffer.from(bytes).toString("latin1");
  const boundary = boundaryOf(type);
  const parts = `\r\n${text}`.split(`\r\n--${boundary}`);
  expect(parts[0]).toBe("");
  expect(parts.at(-1)).toBe("--\r\n");
  return parts.slice(1, -1).map((part) => {
    const end = part.indexOf("\r\n\r\n");
    expect(part.startsWith("\r\n")).toBe(true);
    return { head: part.slice(2, end), body: part.slice(end + 4) };
  });
}

async function made(
  entries: Entries,
  file: FormFile = formFile(),
): Promise<{ readonly bytes: Uint8Array; readonly partMax: number; readonly type: string }> {
  const { body, type } = multipartBody(fieldsOf(entries), file);
  const { bytes, partMax } = await sent(body);
  expect(bytes.length).toBe(body.length);
  return { bytes, partMax, type };
}

test("a form arrives as it was, fields before the file, in the order they had", async () => {
  const content = bytesOf("RIFF\r\n--x\r\n\r\n");
  const { bytes, type } = await made(
    [
      ["model", "m"],
      ["a[]", "1"],
      ["a[]", "2"],
    ],
    formFile(content),
  );
  expect(partsIn(bytes, type)).toEqual([
    { head: `Content-Disposition: form-data; name="model"`, body: "m" },
    { head: `Content-Disposition: form-data; name="a[]"`, body: "1" },
    { head: `Content-Disposition: form-data; name="a[]"`, body: "2" },
    { head: `Content-Disposition: form-data; name="file"; filename="speech.wav"\r\nContent-Type: audio/wav`, body: textOf(content) },
  ]);
});

test("another reader finds the same fields and the same file in it, whatever they hold", async () => {
  const value = fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("\r\n--", "a\r\n\r\nb", "\u0000"));
  const entries = fc.array(fc.tuple(fc.stringMatching(/^[a-z_[\]]{1,20}$/), value), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(entries, fc.uint8Array(), fc.stringMatching(/^[a-zäß日 ]{1,20}\.mp3$/), async (fields, content, name) => {
      const { bytes, type } = await made(fields, formFile(content, { name }));
      const form = await parsedForm(bytes, type);
      const seen = [...form.entries()].filter(([key]) => key !== "file");
      expect(seen).toEqual(fields.filter(([key]) => key !== "file").map(([key, said]) => [key, said.toWellFormed()]));
      const file = form.getAll("file").at(-1) as unknown as File;
      expect(file.name).toBe(name);
      expect(new Uint8Array(await file.arrayBuffer())).toEqual(content);
    }),
    { numRuns: 50 },
  );
});

test("no name of a field or file and no media type can begin a header or a part of its own", async () => {
  const evil = fc.oneof(
    anyText(),
    fc.constantFrom(`a"; name="model`, "a\r\nContent-Type: text/html\r\n\r\nx", "a\n\nb", `a\\`, `\\"; x="`, "\u2028", `"`),
  );
  await fc.assert(
    fc.asyncProperty(evil, evil, evil, async (field, name, mediaType) => {
      const { bytes, type } = await made([[field, "v"]], formFile(undefined, { name, type: mediaType }));
      const parts = partsIn(bytes, type);
      expect(parts.length).toBe(2);
      expect(parts[0]!.head).toMatch(/^Content-Disposition: form-data; name="[^"\\\r\n\0]*"$/);
      expect(parts[1]!.head).toMatch(
        /^Content-Disposition: form-data; name="file"; filename="[^"\\\r\n\0]+"\r\nContent-Type: [\w.+-]+\/[\w.+-]+(?: ?; ?[\w.+-]+=(?:[\w.,+-]*|"[ \w.,+-]*"))*;?$/,
      );
    }),
  );
});

test("a media type keeps all of its parameters, and one that cannot stand in a header is not passed on", () => {
  const shown = (type: string): string => typeOf(formFile(undefined, { type }));
  for (const type of [
    "audio/ogg",
    "audio/ogg; codecs=opus; rate=16000",
    "audio/L16;rate=16000;channels=1;",
    "audio/ogg ; codecs=opus",
    "video/webm;codecs=vp8,opus",
    `video/mp4; codecs="avc1.42E01E, mp4a.40.2"; profile=x`,
  ]) {
    expect(shown(type)).toBe(type);
  }
  for (const type of [
    "audio/ogg; codecs=opus\r\nx-evil: 1",
    "audio/ogg;\r\nx-evil=1",
    "audio/ogg; a=b; c=d\n",
    `audio/ogg; a="b; c=d`,
    `audio/ogg; a="b\\"`,
    "audio/ogg; a=\0",
    `audio/ogg${"; a=b".repeat(60)}`,
    `audio/ogg${"; ".repeat(100_000)}`,
  ]) {
    expect(shown(type)).toBe("application/octet-stream");
  }
});

test("a name keeps its letters, and of a long one the end is kept", async () => {
  const { bytes } = await made([], formFile(undefined, { name: `${"x".repeat(1000)}Grüße 日本.mp3` }));
  expect(textOf(bytes)).toMatch(/filename="x+Grüße 日本\.mp3"/);
  const unnamed = await made([], formFile(undefined, { name: "", type: "audio/webm;codecs=opus" }));
  expect(textOf(unnamed.bytes)).toContain(`filename="audio"\r\nContent-Type: audio/webm;codecs=opus\r\n`);
});

describe("a large form", () => {
  test("is sent in parts of at most 256 KiB, and again from the beginning", async () => {
    const content = new Uint8Array(3 * 1024 * 1024 + 17).map((_, index) => (index * 7919) >> 3);
    const { body, type } = multipartBody(fieldsOf([["prompt", "p".repeat(700_000)]]), formFile(content));
    const first = await sent(body);
    const again = await sent(body);
    expect(first.partMax).toBeLessThanOrEqual(256 * 1024);
    expect(first.bytes.length).toBe(body.length);
    expect(Buffer.compare(first.bytes, again.bytes)).toBe(0);
    expect(partsIn(first.bytes, type).at(-1)!.body.length).toBe(content.length);
  });

  test("whose file is read in pieces of any size is whole, and one that came up short is an error", async () => {
    const content = bytesOf("0123456789");
    const slow = {
      ...stored(content),
      read: (from: number, length: number) => Promise.resolve(content.slice(from, from + Math.min(3, length))),
    };
    const { bytes, type } = await made([], formFile(undefined, { content: slow }));
    expect(partsIn(bytes, type)[0]!.body).toBe("0123456789");
    const short = { ...stored(content), length: 20 };
    await expect(made([], formFile(undefined, { content: short }))).rejects.toThrow("after 10 of 20 bytes");
  });
});

describe("the boundary", () => {
  const boundary = boundaryOf(multipartBody([], formFile()).type);
  const smuggled = `\r\n--${boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\nforbidden\r\n`;

  test("is another one where a field or the beginning of the file holds it", async () => {
    for (const [entries, file] of [
      [[["prompt", smuggled]], formFile()],
      [[[boundary, "v"]], formFile()],
      [[], formFile(bytesOf(`RIFF${smuggled}`))],
      [[], formFile(undefined, { name: `${boundary}.mp3` })],
    ] as const) {
      const { bytes, type } = await made(entries, file);
      expect(boundaryOf(type)).not.toBe(boundary);
      expect(partsIn(bytes, type).length).toBe(entries.length + 1);
    }
  });

  test("cannot be smuggled in by the rest of a file: such a file is not sent on, wherever its pieces are cut", async () => {
    for (let shift = 0; shift <= smuggled.length + 1; shift++) {
      const padding = 256 * 1024 - shift;
      const content = bytesOf("a".repeat(padding) + smuggled + "b".repeat(100));
      const { body } = multipartBody([], formFile(content));
      let received = "";
      const reading = (async () => {
        for await (const part of body.parts()) received += Buffer.from(part).toString("latin1");
      })();
      await expect(reading).rejects.toThrow("boundary");
      await reading.catch(() => {});
      expect(received.slice(received.indexOf("aaaa"))).not.toContain(boundary);
    }
  });

  test("is another one for each upload, so that a file that holds the boundary of an earlier one is sent as it is", async () => {
    const spooled = async (bytes: Uint8Array): Promise<StoredFile> => {
      const spool = new Spool();
      await spool.write(bytes);
      const file = await spool.finish();
      if (isFailure(file)) throw new Error(file.detail);
      return file;
    };
    const before = boundaryOf(multipartBody([], formFile(undefined, { content: await spooled(bytesOf("RIFF")) })).type);
    const known = [before, boundary].map((each) => smuggled.replaceAll(boundary, each)).join("");
    const content = bytesOf("a".repeat(100_000) + known + "b".repeat(100));
    const form = multipartBody([{ name: "model", value: "m" }], formFile(undefined, { content: await spooled(content) }));
    const { bytes } = await sent(form.body);
    expect([before, boundary]).not.toContain(boundaryOf(form.type));
    const parts = partsIn(bytes, form.type);
    expect(parts.length).toBe(2);
    expect(parts[1]!.body).toBe(textOf(content));
  });

  test("is found when it comes byte by byte", async () => {
    const content = bytesOf("a".repeat(5000) + smuggled);
    const trickle = { ...stored(content), read: (from: number) => Promise.resolve(content.slice(from, from + 1)) };
    await expect(sent(multipartBody([], formFile(undefined, { content: trickle })).body)).rejects.toThrow("boundary");
  });
});
