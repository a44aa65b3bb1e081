import { elementsOf, membersOf, scanJson, valueOf, type JsonKind } from "../../src/operations/json.ts";
import type { FuzzTarget } from "./target.ts";

/** The scanner takes what the runtime's own parser takes, and finds in it the same values. */
export const jsonTarget: FuzzTarget = {
  name: "json",
  seeds: [
    '{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true,"n":1,"temperature":0.5}',
    '{"\\u006dodel":"\\ud83d\\ude00","a":[1,-0,1e5,null,true,false,{}],"a":{"b":{"c":[[],[[]]]}}}',
    Buffer.from(' [ "é河😀" , "\\n\\t\\"" ,\t{ } ]\r\n'),
    `{"image":"${"A".repeat(3_000)}","__proto__":{"x":1}}`,
    '"text"',
    "-12.5E+3",
  ],
  words: [
    '"',
    "\\u",
    "\\ud800",
    "\\udc00",
    "[[[[",
    "{}",
    "null",
    "true",
    "1e400",
    "-",
    "\\",
    '":',
    ",",
    "\xed\xa0\x80",
    "\xef\xbb\xbf",
    "\xc0\x80",
  ],
  check: (input) => {
    const scan = scanJson(input, noLimits);
    const parsed = platform(input);
    if (scan.ok !== parsed.ok) throw new Error(`the scan says ${JSON.stringify(scan)}, JSON.parse says ${JSON.stringify(parsed)}`);
    // What is too much is refused within its bounds, and only what is valid apart from that may pass.
    const bounded = scanJson(input, tightLimits);
    if (bounded.ok && !scan.ok) throw new Error("bounds make an invalid document valid");
    if (!scan.ok || !parsed.ok) return scan.ok ? "" : scan.message.replaceAll(/\d+/g, "");
    const { kind, start, end } = scan;
    const read = readBySpans(input, kind, start, end);
    if (!Bun.deepEquals(read, parsed.value))
      throw new Error(`the spans hold ${JSON.stringify(read)}, the document ${JSON.stringify(parsed.value)}`);
    return `${kind} of ${Math.min(9, scan.members.length)}${bounded.ok ? "" : `, ${bounded.reason}`}`;
  },
};

const noLimits = { depthMax: 10_000, membersMax: 1_000_000, tokensMax: 1_000_000 };
const tightLimits = { depthMax: 4, membersMax: 8, tokensMax: 40 };

function platform(bytes: Uint8Array): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly why: string } {
  try {
    return { ok: true, value: JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)) as unknown };
  } catch (thrown) {
    return { ok: false, why: String(thrown) };
  }
}

/** The value read span by span, never a container as a whole. */
function readBySpans(bytes: Uint8Array, kind: JsonKind, start: number, end: number): unknown {
  if (kind === "array") return elementsOf(bytes, start, end).map((each) => readBySpans(bytes, each.kind, each.start, each.end));
  if (kind !== "object") return valueOf(bytes, { start, end });
  return Object.fromEntries(membersOf(bytes, start, end).map((each) => [each.key, readBySpans(bytes, each.kind, each.start, each.end)]));
}
