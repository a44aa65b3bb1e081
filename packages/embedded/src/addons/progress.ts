/** What is being done, for whoever waits. `what` is a package or a file. */
export type Progress =
  | { readonly step: "asking" | "checking" | "unpacking"; readonly what: string }
  /** Bytes of all packages together, with those that were there before. */
  | { readonly step: "fetching"; readonly what: string; readonly bytes: number; readonly bytesTotal: number }
  /** npm fetches it, and does not tell how far it is. */
  | { readonly step: "packing"; readonly what: string; readonly reason: string };
