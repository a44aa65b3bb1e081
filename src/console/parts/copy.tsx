import { useSignal } from "@preact/signals";

/** Copies a text. Pages on plain HTTP beyond loopback may not use the clipboard; there the text is selected instead. */
export function CopyButton({ text, what = "Copy" }: { readonly text: string; readonly what?: string }) {
  const done = useSignal<"" | "Copied" | "Select and copy it">("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      done.value = "Copied";
    } catch {
      done.value = "Select and copy it";
    }
    setTimeout(() => (done.value = ""), 2000);
  };
  return (
    <button type="button" class="button small" onClick={() => void copy()}>
      <span aria-live="polite">{done.value === "" ? what : done.value}</span>
    </button>
  );
}

/** A secret that is shown once. */
export function Secret({ text }: { readonly text: string }) {
  return (
    <div class="secret">
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}

export function Snippet({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <figure class="stack">
      <figcaption class="row small muted">
        <span>{label}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
    </figure>
  );
}
