import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dir, "../..");
const page = readFileSync(join(root, "docs/errors.md"), "utf8");

/** Every code that our own source can put into an error. */
function codesIn(file: string): string[] {
  const source = readFileSync(join(root, file), "utf8");
  const named = [...source.matchAll(/\bcode: "([a-z_]+)"/g)].map((match) => match[1]!);
  const refused = [...source.matchAll(/\b(?:refuse|refusal)\(\s*(?:(?:\d{3}|status),\s*)?(?:[`"'].*?[`"'],\s*)?"([a-z_]+)"/gs)].map(
    (match) => match[1]!,
  );
  const ineligible = [...source.matchAll(/\brefused\("[^"]*", \d{3}, "([a-z_]+)"/g)].map((match) => match[1]!);
  const byStatus = [...source.matchAll(/\brequestError\([a-z0-9]+, "([a-z_]+)"/g)].map((match) => match[1]!);
  return [...named, ...refused, ...ineligible, ...byStatus];
}

const sources = [
  "src/http/errors.ts",
  "src/gateway/serve.ts",
  "src/http/request-errors.ts",
  "src/http/authenticate.ts",
  "src/gateway/admission/frozen.ts",
  "src/http/auth-failures.ts",
  "src/state/limit-exceeded.ts",
  "src/http/forms/form-errors.ts",
  "src/operations/chat/chat-request.ts",
  "src/operations/mistakes.ts",
  "src/operations/speech/speech-request.ts",
  "src/operations/transcription/transcription-request.ts",
  "src/routing/eligible.ts",
  "src/dialects/transcripts/foreign-transcription.ts",
  "src/dialects/openai/transcription-answer.ts",
  "src/dialects/transcripts/rendered-transcript.ts",
];

test("docs/errors.md lists every error code the gateway gives", () => {
  const codes = new Set(sources.flatMap(codesIn));
  expect(codes.size).toBeGreaterThan(25);
  expect([...codes].filter((code) => !page.includes(code))).toEqual([]);
});
