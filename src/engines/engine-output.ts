/** A JSON line that an engine prints about its own state. */
export interface EngineMessage {
  readonly event: string;
  /** The engine's error message, on one line. */
  readonly error: string | null;
}

/** Returns the message of a line, or null if it is not one. Other fields than `event` and `error` are ignored. */
export function parseEngineMessage(line: string): EngineMessage | null {
  if (!line.includes('"event"')) return null;
  try {
    const found = JSON.parse(line) as { readonly event?: unknown; readonly error?: unknown } | null;
    if (typeof found?.event !== "string" || !eventName.test(found.event)) return null;
    return { event: found.event, error: typeof found.error === "string" ? oneLine(found.error) : null };
  } catch {
    return null;
  }
}

function oneLine(text: string): string {
  return text.slice(0, errorMax).toWellFormed().replace(unprintable, " ").trim();
}

const eventName = /^[a-z_]{1,30}$/;
const errorMax = 1_000;
const unprintable = /[\p{Cc}\p{Cf}\s]+/gu;

/** Splits a byte stream into lines. A line beyond the bound is dropped: no message is that long. */
export class LineSplitter {
  private readonly decoder = new TextDecoder();
  private rest = "";
  private isTooLong = false;

  constructor(private readonly onLine: (text: string) => void) {}

  add(bytes: Uint8Array): void {
    const pieces = this.decoder.decode(bytes, { stream: true }).split("\n");
    const last = pieces.pop() ?? "";
    for (const piece of pieces) {
      this.append(piece);
      if (!this.isTooLong) this.onLine(this.rest);
      this.rest = "";
      this.isTooLong = false;
    }
    this.append(last);
  }

  private append(piece: string): void {
    this.isTooLong ||= this.rest.length + piece.length > lineMax;
    this.rest = this.isTooLong ? "" : this.rest + piece;
  }
}

const lineMax = 16 * 1024;

/** Keeps the last bytes of an output of any length. */
export class LastOutput {
  private tail = Buffer.alloc(0);

  add(bytes: Uint8Array): void {
    this.tail = Buffer.from(Buffer.concat([this.tail, bytes.subarray(-tailBytesMax)]).subarray(-tailBytesMax));
  }

  /** The text on one line, for a log. */
  get text(): string {
    return this.tail.toString("utf8").replace(undecodableOrUnprintable, " ").trim();
  }
}

const tailBytesMax = 2048;
const undecodableOrUnprintable = /[\p{Cc}\p{Cf}\ufffd\s]+/gu;

/** Returns true at most `max` times per window, so that an engine that repeats an error does not fill the log. */
export function makeLogLimit(max: number, windowMs: number, nowMs: () => number): () => boolean {
  let sinceMs = -Infinity;
  let used = 0;
  return () => {
    const now = nowMs();
    if (now - sinceMs >= windowMs) {
      sinceMs = now;
      used = 0;
    }
    used++;
    return used <= max;
  };
}
