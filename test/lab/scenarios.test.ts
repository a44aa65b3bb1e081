import { describe, expect, test } from "bun:test";
import { labSound, piecesIn, speechReply } from "../../src/lab/lab-audio.ts";
import { eventsOf, labText, readLabRequest, wholeAnswer } from "../../src/lab/lab-chat.ts";
import { labScenarios } from "../../src/lab/scenarios.ts";
import { partsOf } from "../support/faults.ts";

describe("the scenarios of the lab", () => {
  test("have names of their own, which fit into a command line", () => {
    const names = labScenarios.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !/^[a-z0-9-]+$/.test(name))).toEqual([]);
  });

  test("call their faults what the upstream of the tests calls them", () => {
    const behaviours = labScenarios.flatMap(({ channels }) => channels.map(({ behaviour }) => behaviour));
    for (const behaviour of behaviours) expect(partsOf(behaviour)).toHaveLength(behaviour === "ok" ? 0 : 1);
  });

  test("are described in docs/lab.md", async () => {
    const page = await Bun.file(new URL("../../docs/lab.md", import.meta.url)).text();
    const rows = labScenarios.map(({ name, fault, expected }) => `| \`${name}\` | ${fault} | ${expected} |`);
    expect(rows.filter((row) => !page.includes(row))).toEqual([]);
  });
});

describe("a channel of the lab", () => {
  const user = { role: "user", content: "Count." };
  const read = (document: object) => readLabRequest(JSON.stringify(document));

  test("says the whole text, at once and in pieces", () => {
    const asked = read({ stream: true, stream_options: { include_usage: true }, messages: [user] });
    expect(asked).toEqual({ stream: true, includeUsage: true, from: 0 });
    const { tokens, end } = eventsOf(asked!);
    const said = tokens.map((event) => JSON.parse(event.slice("data: ".length)).choices[0].delta.content as string).join("");
    expect(said).toBe(labText);
    expect(end).toContain('"usage"');
    expect(end.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(JSON.parse(wholeAnswer(asked!)).choices[0].message.content).toBe(labText);
  });

  test("goes on with a text that broke off, a few words before its end", () => {
    const begun = labText.slice(0, labText.indexOf(" word41"));
    expect(read({ messages: [user, { role: "assistant", content: begun }, user] })?.from).toBe(32);
    expect(read({ messages: [user, { role: "assistant", content: "word1 word2" }] })?.from).toBe(0);
    expect(read({ messages: [user, { role: "assistant", content: "Something else" }, user] })?.from).toBe(0);
  });

  test.each(["", "{", "null", "7", '"text"'])("does not answer %j", (body) => {
    expect(readLabRequest(body)).toBeNull();
  });

  test.each([{}, { messages: 7 }, { messages: [null, 3] }, { messages: [{ role: "assistant", content: [] }] }])(
    "answers %j",
    (document) => {
      expect(read(document)?.from).toBe(0);
    },
  );
});

describe("the sound of the lab", () => {
  test("is a WAV of the length that it declares, and its beginning is told from other sound", async () => {
    const view = new DataView(labSound.buffer);
    expect([view.getUint32(4, true) + 8, view.getUint32(40, true) + 44]).toEqual([labSound.length, labSound.length]);
    expect([piecesIn(labSound), piecesIn(labSound.subarray(0, 44)), piecesIn(labSound.subarray(0, labSound.length - 1))]).toEqual([
      60, 0, 59,
    ]);
    expect(piecesIn(labSound.toReversed())).toBeNull();
    expect([speechReply.opening + speechReply.pieces.join(""), labSound.length]).toEqual([speechReply.whole, speechReply.whole.length]);
  });
});
