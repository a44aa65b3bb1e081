/** A message as llhttp reads it: the parser of Node.js, which the runtime carries as well. */
export interface Reference {
  readonly method: string;
  readonly target: string;
  readonly status: number;
  /** Names in lower case and values, in their order. */
  readonly headers: readonly string[];
  /** Latin-1, which compares byte for byte. */
  readonly body: string;
  readonly keepsAlive: boolean;
  readonly ended: boolean;
}

export interface ReferenceReading {
  readonly messages: readonly Reference[];
  readonly refused: boolean;
}

/** Reads all bytes of a connection; `closes` where that is how it ends. */
export function readByReference(kind: "request" | "response", bytes: Uint8Array, closes = false): ReferenceReading {
  const messages: { -readonly [Name in keyof Reference]: Reference[Name] }[] = [];
  const parser = new HTTPParser();
  parser.initialize(kind === "request" ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {});
  let early: string[] = [];
  let earlyUrl = "";
  let isHeadOver = false;
  parser[HTTPParser.kOnMessageBegin] = () => {
    early = [];
    earlyUrl = "";
    isHeadOver = false;
  };
  // Headers that do not fit at once come before the others, and those behind the body are trailers.
  parser[HTTPParser.kOnHeaders] = (some: string[], url: string) => {
    if (isHeadOver) return;
    early.push(...some);
    earlyUrl += url;
  };
  parser[HTTPParser.kOnHeadersComplete] = (...values: unknown[]) => {
    const [, , headers, method, url, status, , , keepsAlive] = values as [
      number,
      number,
      string[]?,
      number?,
      string?,
      number?,
      string?,
      boolean?,
      boolean?,
    ];
    isHeadOver = true;
    const all = [...early, ...(headers ?? [])].map((each, at) =>
      at % 2 === 0 ? each.toLowerCase() : each.replaceAll(/^[ \t]+|[ \t]+$/g, ""),
    );
    messages.push({
      method: method === undefined ? "" : (allMethods[method] ?? ""),
      target: url ?? earlyUrl,
      status: status ?? 0,
      headers: all,
      body: "",
      keepsAlive: keepsAlive === true,
      ended: false,
    });
    return 0;
  };
  parser[HTTPParser.kOnBody] = (part: Uint8Array) => {
    messages.at(-1)!.body += Buffer.from(part).toString("latin1");
  };
  parser[HTTPParser.kOnMessageComplete] = () => {
    messages.at(-1)!.ended = true;
  };
  let refused = parser.execute(Buffer.from(bytes)) instanceof Error;
  if (closes && !refused) refused = parser.finish() instanceof Error;
  return { messages, refused };
}

/** Whether there is a tab in a header that says how long the message is, behind which llhttp does not know `chunked`: RFC 9110 allows it. */
export function hasTabsInFraming(bytes: Uint8Array): boolean {
  return /(?:transfer-encoding|content-length|connection):[^\r\n]*\t/i.test(Buffer.from(bytes).toString("latin1"));
}

interface Parser {
  initialize(kind: number, resource: object): void;
  execute(bytes: Buffer): number | Error;
  finish(): number | Error | undefined;
  [callback: number]: (...values: never[]) => number | void;
}

interface Binding {
  readonly allMethods: readonly string[];
  readonly HTTPParser: (new () => Parser) &
    Record<"REQUEST" | "RESPONSE" | "kOnMessageBegin" | "kOnHeaders" | "kOnHeadersComplete" | "kOnBody" | "kOnMessageComplete", number>;
}

const { HTTPParser, allMethods } = (process as unknown as { binding(name: string): unknown }).binding("http_parser") as Binding;
