import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Conversation, ConversationTurn, Part, ReasoningPart } from "../../../src/operations/conversation/conversation.ts";
import { openPart, sealPart, withOpenedParts, type PartOwner, type TextSeal } from "../../../src/operations/conversation/sealed-parts.ts";

/** Readable, for the tests: the context stands before the text. */
const seal: TextSeal = {
  seal: (text, context) => (text.length > 1000 ? null : `${context.join(" ")}|${text}`),
  open: (sealed, context) => (sealed.startsWith(`${context.join(" ")}|`) ? sealed.slice(context.join(" ").length + 1) : null),
};
const owner: PartOwner = { keyId: "k1", dialect: "d", host: "h", model: "m" };
const value = { dialect: "d", data: "signed" };
const open = (sealed: string): Part | null => openPart(sealed, seal, owner);
const carried = (part: Part, by = owner): ReasoningPart => carrier(sealPart(part, seal, by));
const carrier = (data: string, text = ""): ReasoningPart => ({ kind: "reasoning", text, signature: { dialect: "sluice", data } });

function opened(...parts: readonly Part[]): readonly Part[] {
  const [turn] = withOpenedParts({ turns: [{ role: "assistant", parts }] } as unknown as Conversation, open).turns;
  return turn?.parts ?? [];
}

const thought: ReasoningPart = { kind: "reasoning", text: "hm", signature: value };
const call: Part = { kind: "tool_call", id: "c1", name: "read", arguments: '{"a":1}' };
const text: Part = { kind: "text", text: "so" };

describe("a part that only its provider understands", () => {
  test.each<[string, ReasoningPart]>([
    ["reasoning", thought],
    ["reasoning that is not shown", { kind: "reasoning", text: "", signature: value, redacted: true }],
    ["a summary", { kind: "reasoning", text: "in short", signature: value, summary: true }],
  ])("returns to it as it was: %s", (_, part) => {
    expect(opened(carried(part), text, call)).toEqual([part, text, call]);
  });

  test("is taken from the seal, whatever the client made of it", () => {
    expect(opened(carrier(sealPart(thought, seal, owner), "something else"))).toEqual([thought]);
  });

  test("signs the call of its id and the text that it was made for, and nothing else", () => {
    const other: Part = { ...call, id: "c2" };
    expect(opened(carried({ ...call, signature: value }), call, other)).toEqual([{ ...call, signature: value }, other]);
    expect(opened(text, carried({ ...text, signature: value }), call)).toEqual([{ ...text, signature: value }, call]);
    expect(opened({ ...text, text: "changed" }, carried({ ...text, signature: value }))).toEqual([{ ...text, text: "changed" }]);
    expect(opened(carried({ ...call, id: "gone", signature: value }), call)).toEqual([call]);
  });

  test("is found where the client's API has a place for it on the call itself", () => {
    const sealed = (part: Part): Part => ({ ...call, signature: { dialect: "sluice", data: sealPart(part, seal, owner) } });
    expect(opened(sealed({ ...call, signature: value }))).toEqual([{ ...call, signature: value }]);
    expect(opened(sealed({ ...call, id: "c2", signature: value }))).toEqual([call]);
    expect(opened({ ...call, signature: { dialect: "sluice", data: "sluice-v1.AAAA" } })).toEqual([call]);
  });

  test("is found on the call that came after it, also where the client returns both", () => {
    const carrying = { ...call, signature: { dialect: "sluice", data: sealPart(thought, seal, owner) } };
    expect(opened(carrying)).toEqual([thought, call]);
    expect(opened(carried(thought), text, carrying)).toEqual([thought, text, call]);
    const another = { ...thought, signature: { ...value, data: "another" } };
    expect(opened(carried(another), carrying)).toEqual([another, thought, call]);
  });

  test.each<[string, Part]>([
    ["was sealed for another provider", carried(thought, { ...owner, host: "other" })],
    ["was sealed for another model", carried(thought, { ...owner, model: "other" })],
    ["was sealed for another client", carried(thought, { ...owner, keyId: "k2" })],
    ["is forged", carrier("sluice-v1.AAAA")],
    ["is no text of ours at all", carrier("AAAA")],
    [
      "holds something that this version does not know",
      carrier(`sluice-v1.${seal.seal('{"kind":"new","signature":null}', ["k1", "d", "h", "m"])}`),
    ],
    ["holds no object", carrier(`sluice-v1.${seal.seal("[]", ["k1", "d", "h", "m"])}`)],
  ])("is left out where it %s", (_, part) => {
    expect(opened(part, text, call)).toEqual([text, call]);
  });

  test("goes with the copies of it that nobody signed", () => {
    expect(opened({ kind: "reasoning", text: "hm", signature: null }, carried(thought), text)).toEqual([thought, text]);
    expect(opened({ kind: "reasoning", text: "hm", signature: null }, carrier("sluice-v1.AAAA"), text)).toEqual([text]);
  });

  test("is not carried where it has no signature, or is too long", () => {
    expect(sealPart({ ...thought, signature: null }, seal, owner)).toBe("");
    expect(sealPart(text, seal, owner)).toBe("");
    expect(sealPart(call, seal, owner)).toBe("");
    expect(sealPart({ ...thought, text: "x".repeat(1000) }, seal, owner)).toBe("");
  });
});

describe("a conversation", () => {
  test("in which nothing is sealed stays the same object", () => {
    const conversation = { turns: [{ role: "assistant", parts: [thought, text] }] } as unknown as Conversation;
    expect(withOpenedParts(conversation, open)).toBe(conversation);
  });

  test("keeps no turn of which nothing is left", () => {
    const turns: readonly ConversationTurn[] = [
      { role: "user", parts: [text] },
      { role: "assistant", parts: [carrier("sluice-v1.AAAA")] },
    ];
    expect<readonly unknown[]>(withOpenedParts({ turns } as unknown as Conversation, open).turns).toEqual(turns.slice(0, 1));
  });

  test("begins as it did when it had fewer turns", () => {
    const part = fc.constantFrom<Part>(
      text,
      call,
      thought,
      carried(thought),
      carried({ ...call, signature: value }),
      carrier("sluice-v1.x"),
    );
    const turn = fc.record({ role: fc.constant("assistant" as const), parts: fc.array(part, { minLength: 1 }) });
    fc.assert(
      fc.property(fc.array(turn), turn, (turns, next) => {
        const shorter = withOpenedParts({ turns } as unknown as Conversation, open).turns;
        const longer = withOpenedParts({ turns: [...turns, next] } as unknown as Conversation, open).turns;
        expect<readonly unknown[]>(longer.slice(0, shorter.length)).toEqual(shorter);
      }),
    );
  });
});
