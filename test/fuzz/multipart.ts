import { formSplitter } from "../../src/http/forms/form-splitter.ts";
import { readPart } from "../../src/http/forms/form-part.ts";
import { isFailure } from "../../src/operations/failure.ts";
import { cutAtRandom, type FuzzTarget } from "./target.ts";

/**
 * A form is split alike however it is cut, and its parts are what stands between the boundaries. The runtime's own reader
 * is no measure: it takes neither blanks behind a boundary nor a preamble.
 */
export const multipartTarget: FuzzTarget = {
  name: "multipart",
  seeds: [
    '--b1\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--b1\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\nRIFF\0\0\0\0WAVE\r\n--b1--\r\n',
    '--b1\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n--b1\r\nContent-Disposition: form-data; name="b"\r\n\r\n--b\r\n\r\n--b2\r\n--b1--',
    "preamble\r\n--b1 \t\r\ncontent-disposition: form-data;\r\n name=x; filename*=UTF-8''%c3%a9\r\n\r\none\r\ntwo\r\n--b1--epilogue\r\n--b1\r\n",
    '--b1\r\n\r\nno headers\r\n--b1\r\nContent-Disposition: form-data; name="f"; filename="\\"%22"\r\n\r\n\r\n\r\n--b1--\r\n',
  ],
  words: [
    "--b1",
    "\r\n--b1",
    "\r\n--b1--",
    "\r\n--b1\r\n",
    "\r\n\r\n",
    "\r\n",
    "\r",
    "--",
    'Content-Disposition: form-data; name="x"\r\n',
    'filename="',
    "%22",
    "name*=UTF-8''%f0",
    "\r\n ",
    "b1",
  ],
  check: (input, dice) => {
    const whole = split([input]);
    const inPieces = split(cutAtRandom(input, dice));
    if (!Bun.deepEquals(whole, inPieces)) throw new Error(`whole: ${JSON.stringify(whole)}\nin pieces: ${JSON.stringify(inPieces)}`);
    const parts = whole.parts.map(({ headers }) => readPart(Buffer.from(headers, "latin1")));
    const plainly = splitPlainly(input);
    const differs = !Bun.deepEquals(whole.closed ? whole : withoutLast(whole), whole.closed ? plainly : withoutLast(plainly));
    if (differs) throw new Error(`read in two ways: ${JSON.stringify({ whole, plainly })}`);
    return `${Math.min(4, whole.parts.length)} parts, ${whole.end}, ${parts
      .slice(0, 4)
      .map((part) => (isFailure(part) ? part.detail.slice(0, 12) : part.fileName === null ? "field" : "file"))
      .join()}`;
  },
};

interface Split {
  readonly parts: readonly { readonly headers: string; readonly content: string; readonly ended: boolean }[];
  readonly closed: boolean;
  readonly end: string;
}

/** Of a part that has not ended, it is not settled how far its content goes. */
function withoutLast({ parts, ...rest }: Split): Split {
  return { ...rest, parts: parts.map((part) => (part.ended ? part : { ...part, content: "" })) };
}

function split(pieces: readonly Uint8Array[]): Split {
  const splitter = formSplitter("b1");
  const parts: { headers: string; content: string; ended: boolean }[] = [];
  let end = "open";
  for (const piece of pieces) {
    for (const found of splitter.pieces(piece)) {
      if (found.kind === "headers") parts.push({ headers: text(found.block), content: "", ended: false });
      else if (found.kind === "content") parts.at(-1)!.content += text(found.bytes);
      else if (found.kind === "part-end") parts.at(-1)!.ended = true;
      else end = found.kind;
    }
    if (end !== "open") break;
  }
  return { parts, closed: splitter.closed, end: splitter.closed ? "closed" : end };
}

/** The whole text at once, by an expression: slow, and short enough to be seen to be right. */
function splitPlainly(input: Uint8Array): Split {
  const all = `\r\n${text(input)}`;
  const boundary = /\r\n--b1(?:(--)|[ \t]{0,128}(?=\r\n))/g;
  const parts: { headers: string; content: string; ended: boolean }[] = [];
  let mark = boundary.exec(all);
  while (mark !== null && mark[1] === undefined) {
    const from = boundary.lastIndex;
    const blank = all.indexOf("\r\n\r\n", from);
    if (blank < 0) return { parts, closed: false, end: "open" };
    boundary.lastIndex = blank + 2;
    mark = boundary.exec(all);
    // Without an end, some of the content may still turn out to be the beginning of a boundary.
    const content = all.slice(blank + 4, mark === null ? all.length : Math.max(blank + 4, mark.index));
    parts.push({ headers: all.slice(Math.min(from + 2, blank), blank), content, ended: mark !== null });
  }
  return { parts, closed: mark !== null, end: mark === null ? "open" : "closed" };
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("latin1");
}
