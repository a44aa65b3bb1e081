import { useSignal, type Signal } from "@preact/signals";
import { ApiError } from "./api.ts";

/** A change that is under way, and why it was refused. */
export interface Submission<Input> {
  readonly error: Signal<ApiError | null>;
  readonly busy: Signal<boolean>;
  readonly run: (input: Input) => void;
}

/** Makes a change once at a time. What the admin API refuses is shown; everything else is a bug, and thrown. */
export function useSubmission<Input>(act: (input: Input) => Promise<void>): Submission<Input> {
  const error = useSignal<ApiError | null>(null);
  const busy = useSignal(false);
  const run = async (input: Input): Promise<void> => {
    if (busy.value) return;
    busy.value = true;
    try {
      await act(input);
      error.value = null;
    } catch (reason) {
      if (!(reason instanceof ApiError)) throw reason;
      error.value = reason;
    } finally {
      busy.value = false;
    }
  };
  return { error, busy, run: (input) => void run(input) };
}

export type FormFields = Readonly<Record<string, string>>;

/** The fields of a form as it is sent. */
export function fieldsOf(event: Event): FormFields {
  event.preventDefault();
  if (!(event.currentTarget instanceof HTMLFormElement)) return {};
  const fields = [...new FormData(event.currentTarget)].flatMap(([name, value]) =>
    typeof value === "string" ? [[name, value] as const] : [],
  );
  return Object.fromEntries(fields);
}
