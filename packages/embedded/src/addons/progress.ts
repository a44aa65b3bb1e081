/** The current step, for display. `what` is a package or a file. */
export type Progress =
  | { readonly step: "asking" | "checking" | "unpacking"; readonly what: string }
  /** Bytes of all packages together, including those from earlier attempts. */
  | { readonly step: "fetching"; readonly what: string; readonly bytes: number; readonly bytesTotal: number }
  /** npm downloads it, without reporting its progress. */
  | { readonly step: "packing"; readonly what: string; readonly reason: string };

/** Why an add-on was not added. The message tells the user what to do. */
export interface AddProblem {
  readonly kind: "platform" | "busy" | "no_npm" | "unavailable" | "differs" | "no_space" | "files" | "interrupted";
  readonly message: string;
}

export function problem(kind: AddProblem["kind"], message: string): AddProblem {
  return { kind, message };
}

export function isProblem(value: unknown): value is AddProblem {
  return typeof value === "object" && value !== null && "kind" in value && "message" in value && !(value instanceof Error);
}

/** A readable size, such as `43.3 MB`. */
export function shownBytes(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(1)} GB`;
  if (bytes >= 1e6) return `${(bytes / 1e6).toFixed(1)} MB`;
  return bytes >= 1e3 ? `${(bytes / 1e3).toFixed(1)} kB` : `${bytes} B`;
}
