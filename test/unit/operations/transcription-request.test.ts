import { describe, expect, test } from "bun:test";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { listIn } from "../../../src/operations/transcription/form-lists.ts";
import type { FormFile } from "../../../src/media/stored-file.ts";
import { readTranscriptionRequest, type TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import { transcriptFormats } from "../../../src/operations/transcription/transcript.ts";
import { anyText } from "../../support/properties.ts";
import { ask, bytesOf, fieldsOf, formFile, wave } from "../../support/transcription-world.ts";
import fc from "fast-check";

type Entries = readonly (readonly [string, string])[];

function read(
  entries: Entries,
  file: FormFile = formFile(),
  task: TranscriptionRequest["task"] = "transcribe",
): TranscriptionRequest | Failure {
  return readTranscriptionRequest(fieldsOf(entries), file, task);
}

function refused(entries: Entries, file?: FormFile, task?: TranscriptionRequest["task"]): Failure {
  const failure = read([["model", "m"], ...entries], file, task);
  if (!isFailure(failure)) throw new Error("it was accepted");
  expect(failure).toMatchObject({ kind: "invalid_request", blame: "client", status: 400, type: "invalid_request_error" });
  return failure;
}

test("a model is enough, and the rest has the defaults of the OpenAI API", () => {
  const fields = fieldsOf([["model", "whisper-1"]]);
  const file = formFile();
  expect(readTranscriptionRequest(fields, file, "transcribe")).toEqual({
    operation: "transcription",
    task: "transcribe",
    model: "whisper-1",
    stream: false,
    format: "json",
    language: null,
    wantsWords: false,
    wantsSegments: true,
    fields,
    file,
    seconds: null,
    isCut: false,
  });
});

test("without a model, or with an empty one, it says that the model is missing", () => {
  for (const entries of [[], [["model", ""]]] as const) {
    expect(read(entries)).toMatchObject({ status: 400, code: "missing_required_parameter", param: "model" });
  }
  expect(read([["model", "m".repeat(513)]])).toMatchObject({ code: "string_above_max_length", param: "model" });
});

describe("a format", () => {
  test.each([...transcriptFormats])("may be %s", (format) => {
    expect(ask([["response_format", format]]).format).toBe(format);
  });

  test("of any other name is refused with the names there are", () => {
    const failure = refused([["response_format", "docx"]]);
    expect(failure).toMatchObject({ code: "invalid_value", param: "response_format" });
    expect(failure.publicMessage).toContain("json, text, srt, vtt, verbose_json, diarized_json");
  });

  test("with speakers is not for translations", () => {
    expect(refused([["response_format", "diarized_json"]], undefined, "translate")).toMatchObject({ param: "response_format" });
  });
});

describe("stream", () => {
  test.each([
    ["true", true],
    ["True", true],
    ["false", false],
    ["", false],
  ])("%p means %p", (value, stream) => {
    expect(ask([["stream", value]]).stream).toBe(stream);
  });

  test("is refused when it is neither true nor false", () => {
    expect(refused([["stream", "yes"]])).toMatchObject({ code: "invalid_value", param: "stream" });
  });

  test("is ignored where events could not carry what was asked for, and for translations", () => {
    for (const format of ["srt", "vtt", "verbose_json"])
      expect(
        ask([
          ["stream", "true"],
          ["response_format", format],
        ]).stream,
      ).toBe(false);
    for (const format of ["json", "text", "diarized_json"])
      expect(
        ask([
          ["stream", "true"],
          ["response_format", format],
        ]).stream,
      ).toBe(true);
    expect(ask([["stream", "true"]], { task: "translate" }).stream).toBe(false);
  });
});

describe("timestamp granularities", () => {
  const name = "timestamp_granularities";
  test.each<[Entries, boolean, boolean]>([
    [[], false, true],
    [[[name, "word"]], true, false],
    [[[`${name}[]`, "word"]], true, false],
    [
      [
        [`${name}[]`, "word"],
        [`${name}[]`, "segment"],
      ],
      true,
      true,
    ],
    [
      [
        [`${name}[0]`, "segment"],
        [`${name}[1]`, "word"],
      ],
      true,
      true,
    ],
    [[[name, `["word"]`]], true, false],
    [[[name, `["segment", "word"]`]], true, true],
    [[[`${name}[]`, `["word"]`]], true, false],
    [[[name, ` [ "word" ]`]], true, false],
    [[[name, "[]"]], false, true],
    [[[name, ""]], false, true],
  ])("%j: words %p, segments %p", (entries, wantsWords, wantsSegments) => {
    expect(ask(entries)).toMatchObject({ wantsWords, wantsSegments });
  });

  test("of another name, or in nonsense, are refused", () => {
    for (const value of ["character", "[", `["word", 1]`, `["word", ["segment"]]`, `["word", {}]`, `{"a":1}`, `[${"[".repeat(1e5)}`]) {
      expect(refused([[name, value]])).toMatchObject({ code: "invalid_value", param: name });
    }
  });
});

describe("a list in a form", () => {
  const spellings: readonly ((values: readonly string[]) => Entries)[] = [
    (values) => values.map((value) => ["keywords[]", value]),
    (values) => values.map((value) => ["keywords", value]),
    (values) => values.map((value, index) => [`keywords[${index}]`, value]),
    (values) => values.map((value, index): [string, string] => [`keywords[${index}]`, value]).toReversed(),
    (values) => [["keywords", JSON.stringify(values)]],
    (values) => [["keywords[]", JSON.stringify(values, null, 2)]],
  ];

  test("is the same however it is written, and has nothing of other fields", () => {
    // What is itself a list of strings as JSON cannot be told from one.
    const value = fc.string({ unit: "grapheme", minLength: 1 }).filter((text) => !text.trimStart().startsWith("["));
    fc.assert(
      fc.property(fc.array(value, { maxLength: 20 }), fc.constantFrom(...spellings), (values, spell) => {
        const entries: Entries = [["keyword", "a"], ...spell(values), ["keywords[x]", "b"], ["keywords[]", ""], ["xkeywords[]", "c"]];
        expect(listIn(fieldsOf(entries), "keywords")).toEqual(values);
      }),
    );
  });

  test("that only looks like JSON, or is too long, is one value", () => {
    const endless = JSON.stringify(Array.from({ length: 10_000 }, () => "a"));
    for (const text of ["[laughter]", "[", `["a"] b`, `[["a"]]`, "[1]", "[null]", `[{"a":"b"}]`, "[".repeat(200_000), endless]) {
      expect(listIn(fieldsOf([["keywords", text]]), "keywords")).toEqual([text]);
    }
  });
});

describe("a language", () => {
  test.each([
    ["en", "en"],
    ["EN", "en"],
    ["en-US", "en"],
    ["English", "en"],
    ["mandarin", "zh"],
    ["haitian creole", "ht"],
    ["yue-HK", "yue"],
    ["", null],
    ["multi", null],
    ["x-klingon-2", null],
  ])("%p is %p", (said, language) => {
    expect(ask([["language", said]]).language).toBe(language);
  });

  test("that cannot be a tag is refused, with examples", () => {
    for (const said of ["old klingon", "klingon!", "-", "a--b", " ", "a\r\nb", "k".repeat(36)]) {
      const failure = refused([["language", said]]);
      expect(failure).toMatchObject({ code: "invalid_value", param: "language" });
      expect(failure.publicMessage).toContain("english");
      expect(failure.publicMessage).not.toContain("klingon");
    }
  });
});

test("a temperature is a number from 0 to 1", () => {
  for (const value of ["0", "1", "0.2", "1.0", ""])
    expect(
      isFailure(
        read([
          ["model", "m"],
          ["temperature", value],
        ]),
      ),
    ).toBe(false);
  for (const value of ["-0.1", "1.1", "NaN", "Infinity", "warm", " ", "0,5"]) {
    expect(refused([["temperature", value]])).toMatchObject({ code: "invalid_value", param: "temperature" });
  }
});

test("the last of several fields of one name counts, and all of them travel on as they came", () => {
  const made = ask([
    ["prompt", "a\r\nb"],
    ["model", "last"],
    ["x[y]", "1"],
    ["x[y]", "1"],
  ]);
  expect(made.model).toBe("last");
  expect(made.fields.map(({ name }) => name)).toEqual(["model", "prompt", "model", "x[y]", "x[y]"]);
});

describe("a file", () => {
  test("that looks like audio, is called audio or is named like audio is accepted", () => {
    const unknown = bytesOf("who knows what this is");
    for (const file of [
      formFile(wave, { name: "file", type: null }),
      formFile(wave, { name: "notes.txt", type: "text/plain" }),
      formFile(unknown, { name: "file", type: "audio/x-strange" }),
      formFile(unknown, { name: "file", type: "video/mp4" }),
      formFile(unknown, { name: "A.MP3", type: null }),
    ]) {
      expect(ask([], { file }).file).toBe(file);
    }
  });

  test("that is none of these is refused", () => {
    for (const file of [
      formFile(bytesOf("<html></html>"), { name: "index.html", type: "text/html" }),
      formFile(bytesOf("%PDF-1.7"), { name: "audio", type: null }),
      formFile(bytesOf("mp3"), { name: "mp3.exe", type: "application/octet-stream" }),
      formFile(new Uint8Array(0)),
    ]) {
      expect(refused([], file)).toMatchObject({ code: "invalid_value", param: "file" });
    }
  });
});

test("any form at all gives a request or a refusal with a code, and never an exception", () => {
  const name = fc.oneof(
    fc.constantFrom(
      "model",
      "stream",
      "response_format",
      "language",
      "temperature",
      "timestamp_granularities[]",
      "timestamp_granularities",
    ),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(name, anyText())), fc.constantFrom("transcribe", "translate"), (entries, task) => {
      const made = read(entries, formFile(), task);
      if (isFailure(made)) expect(typeof made.code).toBe("string");
      else expect(made.fields).toEqual(fieldsOf(entries));
    }),
  );
});
