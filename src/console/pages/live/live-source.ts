/** What is used of an `EventSource`. */
export interface LiveSource {
  readonly readyState: number;
  addEventListener(type: "open" | "error", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: string }) => void): void;
  close(): void;
}

export type LiveConnection = "opening" | "open" | "lost";

export interface LiveSourceOptions {
  readonly open: () => LiveSource;
  /** Asks whether the session still exists. If it does not, the page is left. */
  readonly checkSession: () => void;
  /** Calls back once after `ms`. The returned function cancels that. */
  readonly after: (ms: number, then: () => void) => () => void;
  readonly onConnection: (connection: LiveConnection) => void;
  readonly onData: (data: string) => void;
}

/**
 * Follows a stream of events until the returned function is called. A browser connects again by itself where a connection breaks, but not
 * after an answer that is no stream, such as 401, 429 or 503.
 */
export function followLive(options: LiveSourceOptions): () => void {
  let cancel = (): void => undefined;
  let source = options.open();
  const listen = (): void => {
    const current = source;
    current.addEventListener("open", () => options.onConnection("open"));
    current.addEventListener("message", ({ data }) => options.onData(data));
    current.addEventListener("error", () => {
      options.onConnection("lost");
      if (current.readyState !== closed) return;
      cancel();
      cancel = options.after(againMs, () => {
        source = options.open();
        listen();
      });
      options.checkSession();
    });
  };
  listen();
  return () => {
    cancel();
    source.close();
  };
}

/** `EventSource.CLOSED`. */
const closed = 2;
const againMs = 5000;
