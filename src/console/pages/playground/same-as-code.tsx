import { signal } from "@preact/signals";
import { Snippet } from "../../parts/copy.tsx";
import { Choice } from "../../parts/field.tsx";
import type { RequestCode } from "./code.ts";

/** The language that was chosen last, on all three pages of the playground. */
const chosen = signal<RequestCode["language"]>("curl");

export function SameAsCode({ code }: { readonly code: readonly RequestCode[] }) {
  const shown = code.find(({ language }) => language === chosen.value) ?? code[0];
  if (shown === undefined) return null;
  return (
    <details class="card">
      <summary>The same as code</summary>
      <div class="stack">
        <Choice
          label="Language"
          options={code.map(({ language }) => [language, language] as const)}
          value={shown.language}
          onChoose={(language) => (chosen.value = language)}
        />
        <Snippet label="The key is in the variable KEY." text={shown.text} />
      </div>
    </details>
  );
}
