import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import {
  elementsOf,
  type JsonKind,
  jsonLimits,
  lastMember,
  membersOf,
  scanJson,
  type JsonSpan,
  valueOf,
} from "../../../src/operations/json.ts";
import { numRuns } from "../../support/properties.ts";

// Sweeps of some hundred thousand documents: a second each when nothing else is running, and no clock is judged here.
setDefaultTimeout(120_000);

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encode = (text: string): Uint8Array => encoder.encode(text);
const decode = (bytes: Uint8Array): string => decoder.decode(bytes);
const scanText = (text: string) => scanJson(encode(text));

/** What the platform says of a document, which is what we must say of it. */
function platformAccepts(bytes: Uint8Array): boolean {
  try {
    JSON.parse(decode(bytes));
    return true;
  } catch {
    return false;
  }
}

function expectAgreement(bytes: Uint8Array): void {
  const scan = scanJson(bytes);
  if (scan.ok === platformAccepts(bytes)) return;
  throw new Error(`JSON.parse differs about ${JSON.stringify(new TextDecoder().decode(bytes))} (${bytes}): ${JSON.stringify(scan)}`);
}

/** The value read span by span, never parsing a container as a whole. */
function readBySpans(bytes: Uint8Array, span: Omit<JsonSpan, "empty">): unknown {
  if (span.kind === "array") return elementsOf(bytes, span.start, span.end).map((element) => readBySpans(bytes, element));
  if (span.kind !== "object") return valueOf(bytes, span);
  return Object.fromEntries(membersOf(bytes, span.start, span.end).map((member) => [member.key, readBySpans(bytes, member)]));
}

const space = fc.string({ unit: fc.constantFrom(" ", "\t", "\n", "\r"), maxLength: 3 });
const numberText = fc.oneof(
  fc.constantFrom("0", "-0", "1.0", "1e400", "-1E+2", "0.1e-7", "9223372036854775807", "123456789012345678901234567890"),
  fc
    .double({ noNaN: true, noDefaultInfinity: true })
    .map(String)
    .filter((text) => !text.includes("Infinity")),
  fc.maxSafeInteger().map(String),
);
const escape = fc.oneof(
  fc.constantFrom('\\"', "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\u006d", "\\uD800", "\\udfff", "\\ud83d\\ude00"),
  fc.nat(0xffff).map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`),
);
const piece = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: "grapheme-ascii" }).map((text) => text.replace(/["\\]/g, "'")) },
  { weight: 2, arbitrary: escape },
  { weight: 2, arbitrary: fc.constantFrom("é", "河", "😀", "\u007f", "\u2028", "\ufeff", "\uffff", "Ã©") },
  { weight: 1, arbitrary: fc.nat(300).map((length) => "x".repeat(length)) },
);
const stringText = fc.array(piece, { maxLength: 6 }).map((pieces) => `"${pieces.join("")}"`);
const keyText = fc.oneof(stringText, fc.constantFrom('"model"', '"\\u006dodel"', '"__proto__"', '"constructor"', '"stream"', '""'));

type Texts = { value: string; entry: [key: string, value: string]; object: string };

const { value, entry, object } = fc.letrec<Texts>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    numberText,
    stringText,
    fc.constantFrom("true", "false", "null"),
    fc
      .tuple(space, fc.array(fc.tuple(space, tie("value"), space), { maxLength: 5 }))
      .map(([inner, elements]) => (elements.length === 0 ? `[${inner}]` : `[${elements.map((element) => element.join("")).join()}]`)),
    tie("object"),
  ),
  entry: fc.tuple(keyText, tie("value")),
  object: fc
    .tuple(space, fc.array(fc.tuple(space, tie("entry"), space), { maxLength: 5 }))
    .map(([inner, entries]) =>
      entries.length === 0
        ? `{${inner}}`
        : `{${entries.map(([before, [key, text], after]) => `${before}${key}${after}:${before}${text}${after}`).join()}}`,
    ),
}));
const documentText = fc.tuple(space, value, space).map((parts) => parts.join(""));

const telling = [
  ...encode('{}[],:"\\/u0919-+.eE tfn\n\t\r '),
  0x00,
  0x1f,
  0x7f,
  0x80,
  0xbf,
  0xc0,
  0xc3,
  0xe2,
  0xed,
  0xef,
  0xf0,
  0xf4,
  0xff,
];
const byte = fc.oneof(fc.constantFrom(...telling), fc.nat(255));
const edit = fc.record({ at: fc.nat(), removed: fc.nat(3), added: fc.array(byte, { maxLength: 3 }) });

describe("a document is accepted exactly when JSON.parse accepts it", () => {
  test("accepts every valid document, whatever its spelling and white space", () => {
    fc.assert(
      fc.property(documentText, (text) => {
        expect(scanText(text)).toMatchObject({
          ok: true,
          start: text.search(/\S/),
          end: encode(text.trimEnd()).length,
        });
        expectAgreement(encode(text));
      }),
      { numRuns: numRuns(500) },
    );
  });

  test("agrees about documents with a few bytes changed", () => {
    fc.assert(
      fc.property(documentText, fc.array(edit, { minLength: 1, maxLength: 3 }), (text, edits) => {
        const bytes = [...encode(text)];
        for (const { at, removed, added } of edits) bytes.splice(at % (bytes.length + 1), removed, ...added);
        expectAgreement(Uint8Array.from(bytes));
      }),
      { numRuns: numRuns(1_250) },
    );
  });

  test("agrees about arbitrary bytes", () => {
    fc.assert(
      fc.property(fc.array(byte, { maxLength: 12 }), (bytes) => expectAgreement(Uint8Array.from(bytes))),
      { numRuns: numRuns(2_500) },
    );
  });

  test("agrees about every short text of punctuation", () => {
    for (const text of everyText('{}[],:"1', 5)) expectAgreement(encode(text));
  });

  test("agrees about every short spelling of a number", () => {
    for (const text of everyText("-+0.7e", 6)) expectAgreement(encode(text));
  });

  test("agrees about every short escape", () => {
    for (const text of everyText('\\u"bfD8', 5)) expectAgreement(encode(`"${text}"`));
    for (const code of everyText("0aAfFgG/:@`\\", 4)) expectAgreement(encode(`"\\u${code}"`));
  });

  test("agrees about every single byte, wherever it stands", () => {
    for (let code = 0; code < 256; code++) {
      for (const [before, after] of [
        ["", ""],
        ['"', '"'],
        ['"\\', '"'],
        ["[", "]"],
        ["1", ""],
        [" ", "1"],
        ['{"', '":1}'],
        ["[1", "2]"],
        ["tru", ""],
      ] as const) {
        expectAgreement(Uint8Array.from([...encode(before), code, ...encode(after)]));
      }
    }
  });

  test("agrees about literals that are almost right", () => {
    for (const literal of ["true", "false", "null"]) {
      for (let length = 0; length < literal.length; length++) {
        for (const wrong of ["", "x", "E", " ", "]"]) expectAgreement(encode(literal.slice(0, length) + wrong + literal.slice(length + 1)));
      }
      expectAgreement(encode(`${literal}${literal}`));
      expectAgreement(encode(`[${literal},${literal}]`));
    }
  });

  test("refuses every prefix of an object, array or string", () => {
    const enclosed = documentText.filter((text) => /^\s*["[{]/.test(text));
    fc.assert(
      fc.property(enclosed, (text) => {
        const bytes = encode(text.trimEnd());
        for (let length = 0; length < bytes.length; length++) {
          const scan = scanJson(bytes.subarray(0, length));
          if (scan.ok || scan.reason !== "invalid") throw new Error(`the first ${length} bytes: ${JSON.stringify(scan)}`);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("refuses a byte order mark in front, and knows it for a character elsewhere", () => {
    expect(scanText('\ufeff{"a":1}')).toMatchObject({
      ok: false,
      reason: "invalid",
      at: 0,
      message: "unexpected byte order mark at byte 0",
    });
    expect(scanText('{"\ufeffa":"\ufeff"}')).toMatchObject({ ok: true, members: [{ key: "\ufeffa" }] });
  });

  test("says what is wrong, and where", () => {
    const messageOf = (text: string) => {
      const scan = scanText(text);
      return scan.ok ? "fine" : `${scan.message} (${scan.at})`;
    };
    expect(messageOf("")).toBe("unexpected end at byte 0 (0)");
    expect(messageOf('{"a":1')).toBe("unexpected end at byte 6 (6)");
    expect(messageOf('{"a":1,}')).toBe("unexpected character at byte 7 (7)");
    expect(messageOf('{"a":01}')).toBe("unexpected character at byte 6 (6)");
    expect(messageOf('["a\nb"]')).toBe("unexpected character at byte 3 (3)");
    expect(messageOf('["a\\x"]')).toBe("unknown escape at byte 3 (3)");
    expect(messageOf("{} x")).toBe("unexpected character at byte 3 (3)");
  });
});

describe("a string is checked to its last byte, however long", () => {
  const oddities = [
    '\\"',
    "\\\\",
    "\\n",
    "\\u00e9",
    "\\ud800",
    "\\x",
    "\\u12",
    "\n",
    "\u0000",
    "\u001f",
    '"',
    "\\",
    "é",
    "河",
    "😀",
    "\u007f",
  ];

  test("whatever stands at whichever offset, in memory of whichever alignment", () => {
    for (const oddity of oddities) {
      for (let offset = 0; offset < 80; offset++) {
        const bytes = encode(`{"k":"${"x".repeat(offset)}${oddity}${"y".repeat(80 - offset)}"}`);
        for (let shift = 0; shift < 4; shift++) expectAgreement(shifted(bytes, shift));
      }
    }
  });

  test("whichever byte stands among the words of a long string", () => {
    for (let code = 0; code < 256; code++) {
      for (let offset = 40; offset < 48; offset++) {
        const bytes = encode(`"${"x".repeat(100)}"`);
        bytes[offset] = code;
        expectAgreement(bytes);
        bytes[offset + 1] = code;
        expectAgreement(bytes);
      }
    }
  });

  test("whatever surrounds the view of a document has no part in it", () => {
    const text = `["${"x".repeat(60)}"]`;
    for (let shift = 0; shift < 4; shift++) {
      const surrounded = new Uint8Array(shift + 200).fill(0x22);
      surrounded.set(encode(text), shift);
      for (let length = 0; length < text.length; length++) {
        expect(scanJson(surrounded.subarray(shift, shift + length))).toMatchObject({ ok: false, at: length });
      }
      expect(scanJson(surrounded.subarray(shift, shift + text.length))).toMatchObject({ ok: true, end: text.length });
    }
  });

  test("whatever stands near the end of a document of about 64 KiB, from where on it is read where it lies", () => {
    for (const oddity of oddities) {
      for (let offset = 65_480; offset < 65_540; offset += 7) {
        const bytes = encode(`{"k":"${"x".repeat(offset)}${oddity}${"y".repeat(offset % 3)}"}`);
        for (let shift = 0; shift < 4; shift++) expectAgreement(shifted(bytes, shift));
      }
    }
  });

  test("nothing of a document before it has a part in one that breaks off", () => {
    const text = `["${"x".repeat(60)}\\u00e9", 12.5e3, true, {"k": null}]`;
    for (let length = 0; length < text.length; length++) {
      scanJson(encode(text));
      expect(scanJson(encode(text.slice(0, length)))).toMatchObject({ ok: false, at: length, message: `unexpected end at byte ${length}` });
    }
  });

  test("an image of megabytes passes, and one bad byte in it does not", () => {
    const bytes = encode(`{"model":"m","image":"${"iVBORw0K".repeat(400_000)}","n":1}`);
    const scan = scanJson(bytes);
    expect(scan).toMatchObject({
      ok: true,
      members: [{ key: "model" }, { key: "image", kind: "string" }, { key: "n" }],
    });
    for (const bad of [0x0a, 0x22, 0x5c, 0xff]) {
      const at = 1_234_567;
      const broken = bytes.slice();
      broken[at] = bad;
      expect(scanJson(broken)).toMatchObject({ ok: false, reason: "invalid" });
    }
  });
});

describe("a document is UTF-8", () => {
  test("overlong forms, surrogates, characters beyond the last and lone bytes are refused", () => {
    const malformed = [
      [0xc0, 0x80],
      [0xc1, 0xbf],
      [0xe0, 0x9f, 0xbf],
      [0xf0, 0x8f, 0xbf, 0xbf],
      [0xed, 0xa0, 0x80],
      [0xed, 0xbf, 0xbf],
      [0xf4, 0x90, 0x80, 0x80],
      [0xf8, 0x88, 0x80, 0x80, 0x80],
      [0x80],
      [0xfe],
      [0xe2, 0x82],
    ];
    for (const sequence of malformed) {
      for (const length of [0, 5, 50]) {
        const padding = encode("x".repeat(length));
        const inKey = [...encode('{"'), ...padding, ...sequence, ...encode('":0}')];
        const inValue = [...encode('{"key":"'), ...padding, ...sequence, ...padding, ...encode('"}')];
        for (const bytes of [inKey, inValue]) expect(scanJson(Uint8Array.from(bytes)).ok).toBe(false);
      }
    }
  });

  test("every pair of bytes in a string is judged as a decoder judges it", () => {
    for (let first = 0x80; first < 256; first++) {
      for (let second = 0; second < 256; second++) expectAgreement(Uint8Array.of(0x22, first, second, 0x22));
    }
  });

  test("sequences of three and four bytes are judged as a decoder judges them", () => {
    const edges = [0x22, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff];
    for (const first of [0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5]) {
      for (const second of edges) {
        for (const third of edges) {
          expectAgreement(Uint8Array.of(0x22, first, second, third, 0x22));
          for (const fourth of edges) expectAgreement(Uint8Array.of(0x22, first, second, third, fourth, 0x22));
        }
      }
    }
  });

  test("a character may lie across the border of what is checked at a time, and may not be cut there", () => {
    for (const character of ["é", "河", "😀"]) {
      const size = encode(character).length;
      for (let offset = 65_536 - 6; offset < 65_536 + 3; offset++) {
        const bytes = encode(`"${"x".repeat(offset - 1)}${character.repeat(3)}${"x".repeat(70_000)}"`);
        expect(scanJson(bytes).ok).toBe(true);
        for (let broken = offset; broken < offset + 3 * size; broken++) {
          const copy = bytes.slice();
          copy[broken] = 0x78;
          expect(scanJson(copy)).toMatchObject({ ok: false, reason: "invalid" });
        }
      }
    }
  });

  test("long runs of continuation bytes are refused", () => {
    const bytes = new Uint8Array(200_000).fill(0x80);
    bytes[0] = bytes[199_999] = 0x22;
    expect(scanJson(bytes)).toMatchObject({
      ok: false,
      reason: "invalid",
      at: 1,
      message: "malformed UTF-8 at byte 1",
    });
  });

  test("the malformed byte is named, in short documents and long ones", () => {
    for (const length of [0, 10, 70_000, 200_000]) {
      const bytes = Uint8Array.from([...encode(`"é${"河".repeat(length)}`), 0xff, ...encode(`${"x".repeat(length)}"`)]);
      expect(scanJson(bytes)).toMatchObject({
        ok: false,
        at: 3 + 3 * length,
        message: `malformed UTF-8 at byte ${3 + 3 * length}`,
      });
    }
  });
});

describe("spans are exact", () => {
  test("members come in the order of the document, duplicates included, each with its own bytes", () => {
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 8 }), space, space, (entries, before, after) => {
        const text = `${before}{${entries.map(([key, text]) => `${after}${key}${before}:${after}${text}${before}`).join()}}${after}`;
        const bytes = encode(text);
        const scan = scanJson(bytes);
        if (!scan.ok) throw new Error(scan.message);
        const found = scan.members.map((member) => {
          const key = decode(bytes.subarray(member.keyStart)).slice(0, entries[scan.members.indexOf(member)]![0].length);
          return [key, decode(bytes.subarray(member.start, member.end))];
        });
        expect(found).toEqual(entries.map((pair) => [...pair]));
        expect(scan.members.map((member) => member.key)).toEqual(entries.map(([key]) => JSON.parse(key)));
        for (const member of scan.members) {
          const parsed = JSON.parse(decode(bytes.subarray(member.start, member.end)));
          expect(member.kind).toBe(kindOf(parsed));
          expect(member.empty).toBe(typeof parsed === "object" && parsed !== null && Object.keys(parsed).length === 0);
          expect(valueOf(bytes, member)).toEqual(parsed);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("the last of the duplicates counts, as it does for JSON.parse", () => {
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 8 }), (entries) => {
        const bytes = encode(`{${entries.map((pair) => pair.join(":")).join()}}`);
        const scan = scanJson(bytes);
        if (!scan.ok) throw new Error(scan.message);
        const parsed = new Map(Object.entries(JSON.parse(decode(bytes))));
        for (const [key, expected] of parsed) expect(valueOf(bytes, lastMember(scan.members, key)!)).toEqual(expected);
        expect(new Set(scan.members.map(({ key }) => key)).size).toBe(parsed.size);
      }),
    );
    expect(lastMember([], "model")).toBeUndefined();
  });

  test("a document read span by span is the document parsed", () => {
    fc.assert(
      fc.property(documentText, (text) => {
        const bytes = encode(text);
        const scan = scanJson(bytes);
        if (!scan.ok) throw new Error(scan.message);
        const parsed = JSON.parse(text);
        expect(scan.kind).toBe(kindOf(parsed));
        expect(readBySpans(bytes, scan)).toEqual(parsed);
      }),
      { numRuns: 1_000 },
    );
  });

  test("only a top-level object has members", () => {
    expect(scanText('[{"a":1}]')).toEqual({ ok: true, kind: "array", start: 0, end: 9, members: [] });
    expect(scanText(' "a" ')).toEqual({ ok: true, kind: "string", start: 1, end: 4, members: [] });
    expect(scanText(" {\n} ")).toEqual({ ok: true, kind: "object", start: 1, end: 4, members: [] });
  });

  test("a span that was never scanned is a bug, not an answer", () => {
    const bytes = encode('[{"a":1},2]');
    expect(() => membersOf(bytes, 0, 11)).toThrow("taken for an object");
    expect(() => elementsOf(bytes, 1, 8)).toThrow("taken for an array");
    expect(() => membersOf(bytes, 1, 9)).toThrow();
    expect(() => elementsOf(bytes, 0, 10)).toThrow();
  });
});

describe("keys are text, not names of properties", () => {
  test("an escaped key is the key it spells", () => {
    const keys = (text: string) => {
      const scan = scanText(text);
      return scan.ok ? scan.members.map(({ key }) => key) : null;
    };
    expect(keys('{"\\u006dodel":1,"model":2,"mod\\u0065l":3}')).toEqual(["model", "model", "model"]);
    expect(keys('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}')).toEqual(["__proto__", "constructor"]);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    // The second is spelled with the bytes that are the characters of the first.
    expect(keys('{"Ã©":1,"é":2,"Ã©":3}')).toEqual(["Ã©", "é", "Ã©"]);
    expect(keys('{"a\\\\b":1,"a\\b":2,"a\\\\b":3,"":4}')).toEqual(["a\\b", "a\b", "a\\b", ""]);
    expect(keys('{"\\ud800":1}')).toEqual(["\ud800"]);
  });

  test("a key is not taken for another whose characters are its bytes", () => {
    for (let point = 0x80; point < 0x800; point++) {
      const accented = `${String.fromCodePoint(point)}x`;
      const misread = String.fromCharCode(...encode(accented));
      const escaped = `${point}\\n`;
      const text = `{"${misread}":0,"${accented}":0,${JSON.stringify(escaped)}:0,"${escaped}":0}`;
      const scan = scanText(text);
      const expected = [misread, accented, escaped, JSON.parse(`"${escaped}"`)];
      expect(scan.ok && scan.members.map(({ key }) => key)).toEqual(expected);
    }
  });

  test("keys that look alike are not taken for one another, however often they come", () => {
    const keys = Array.from({ length: 5_000 }, (_, index) => `ke${index.toString(36)}y`.padEnd(index % 40, "_"));
    for (let round = 0; round < 2; round++) {
      const scan = scanText(`{${keys.map((key) => `${JSON.stringify(key)}:0`).join()}}`);
      expect(scan.ok && scan.members.map(({ key }) => key)).toEqual(keys);
    }
  });
});

describe("limits", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const nestedObjects = (depth: number) => '{"a":'.repeat(depth) + "0" + "}".repeat(depth);

  test("64 levels pass and 65 do not", () => {
    for (const text of [nested(64), nestedObjects(64), `{"a":${nested(63)}}`, `[${nestedObjects(63)},${nested(63)}]`]) {
      expect(scanText(text).ok).toBe(true);
    }
    for (const text of [
      nested(65),
      nestedObjects(65),
      `{"a":${nested(64)}}`,
      `[0,${nestedObjects(64)}]`,
      `{"a":0,"b":[[${nested(62)}]],"c":${nestedObjects(64)}}`,
    ]) {
      expect(scanText(text)).toMatchObject({
        ok: false,
        reason: "too_complex",
        message: "nested deeper than 64 levels",
      });
    }
  });

  test("50 000 members pass and 50 001 do not, in one object or in many", () => {
    const flat = (count: number) => `{${Array.from({ length: count }, (_, index) => `"${index}":0`).join()}}`;
    const spread = (count: number) => `[${Array.from({ length: count }, () => '{"a":0}').join()}]`;
    const scan = scanText(flat(50_000));
    expect(scan.ok && scan.members.length).toBe(50_000);
    expect(scanJson(encode(spread(50_000)), { ...jsonLimits, tokensMax: 1_000_000 }).ok).toBe(true);
    for (const text of [flat(50_001), flat(200_000)]) {
      expect(scanText(text)).toMatchObject({
        ok: false,
        reason: "too_complex",
        message: "more than 50000 object members",
      });
    }
    expect(scanJson(encode(spread(50_001)), { ...jsonLimits, tokensMax: 1_000_000 })).toMatchObject({
      ok: false,
      reason: "too_complex",
    });
  });

  test("250 000 tokens pass and 250 001 do not", () => {
    const zeros = ",0".repeat(124_998);
    expect(scanText(`[[]${zeros}]`).ok).toBe(true);
    expect(scanText(`[[0]${zeros}]`)).toMatchObject({
      ok: false,
      reason: "too_complex",
      message: "more than 250000 tokens",
    });
    const fewer = ",0".repeat(124_997);
    expect(scanText(`{"a":[0${fewer}]}`).ok).toBe(true);
    expect(scanText(`{"a":[[]${fewer}]}`)).toMatchObject({ ok: false, reason: "too_complex" });
  });

  test("a document passes with exactly what it needs, and with less of anything it does not", () => {
    fc.assert(
      fc.property(documentText, (text) => {
        const bytes = encode(text);
        const needs = needsOf(text);
        expect(scanJson(bytes, needs).ok).toBe(true);
        for (const limit of ["depthMax", "membersMax", "tokensMax"] as const) {
          if (needs[limit] === 0) continue;
          expect(scanJson(bytes, { ...needs, [limit]: needs[limit] - 1 })).toMatchObject({
            ok: false,
            reason: "too_complex",
          });
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("a hostile document is refused early", () => {
    expect(scanJson(new Uint8Array(10_000_000).fill(0x5b))).toMatchObject({ ok: false, reason: "too_complex", at: 64 });
    expect(scanText('{"a":'.repeat(1_000_000))).toMatchObject({ ok: false, reason: "too_complex", at: 320 });
    const objects = scanText(`[${"{},".repeat(1_333_333)}`);
    expect(objects).toMatchObject({ ok: false, reason: "too_complex" });
    expect(!objects.ok && objects.at).toBeLessThan(250_001);
    expect(scanText("{},".repeat(1_333_333))).toMatchObject({ ok: false, reason: "invalid", at: 2 });
    const keys = scanText(`{${Array.from({ length: 1_000_000 }, (_, index) => `"${index}":0`).join()}}`);
    expect(keys).toMatchObject({ ok: false, reason: "too_complex", message: "more than 50000 object members" });
  });

  test("deeper documents can be allowed, to any depth, without a stack", () => {
    const pairs = 50_000;
    const bytes = encode('[{"a":'.repeat(pairs) + "0" + "}]".repeat(pairs));
    const limits = { depthMax: 2 * pairs, membersMax: pairs, tokensMax: 5 * pairs + 1 };
    expect(scanJson(bytes, limits).ok).toBe(true);
    expect(scanJson(bytes, { ...limits, depthMax: 2 * pairs - 1 }).ok).toBe(false);
    expect(elementsOf(bytes, 0, bytes.length)).toEqual([{ start: 1, end: bytes.length - 1, kind: "object", empty: false }]);
  });
});

/** All texts over an alphabet up to a length. */
function* everyText(alphabet: string, lengthMax: number): Generator<string> {
  yield "";
  if (lengthMax === 0) return;
  for (const character of alphabet) for (const rest of everyText(alphabet, lengthMax - 1)) yield character + rest;
}

function shifted(bytes: Uint8Array, shift: number): Uint8Array {
  const memory = new Uint8Array(shift + bytes.length + 8);
  memory.set(bytes, shift);
  return memory.subarray(shift, shift + bytes.length);
}

function kindOf(parsed: unknown): JsonKind {
  if (parsed === null || typeof parsed === "boolean") return String(parsed) as JsonKind;
  return Array.isArray(parsed) ? "array" : (typeof parsed as JsonKind);
}

/** The limits a valid document just passes, counted the plain way. */
function needsOf(text: string): { depthMax: number; membersMax: number; tokensMax: number } {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  const members = tokens.filter((token) => token === ":").length;
  let depth = 0;
  let depthMax = 0;
  for (const token of tokens) {
    if (token === "{" || token === "[") depthMax = Math.max(depthMax, ++depth);
    if (token === "}" || token === "]") depth--;
  }
  // A key is counted with its colon.
  return { depthMax, membersMax: members, tokensMax: tokens.length - members };
}

test("the generated documents cover what they are meant to", () => {
  const sample = fc.sample(object, { numRuns: 500, seed: 7 }).join("");
  for (const feature of ["\\u006d", "\\uD800", "1e400", "__proto__", "河", "[ ]", "\t", "x".repeat(100)]) expect(sample).toContain(feature);
});
