/** The socket that the bytes are written to. */
export interface ClientOutputSocket {
  /** Returns how many bytes the system took; negative if it takes none any more. */
  write(bytes: Uint8Array, offset?: number, length?: number): number;
}

/** The output to one client. It is sent at once, in one write where possible; what the system does not take is queued here. */
export class ClientOutput {
  private unsent: Uint8Array | null = null;
  /** When the client last took queued bytes, or last stopped taking them. */
  progressMs = 0;

  constructor(
    private readonly socket: ClientOutputSocket,
    private readonly clock: { nowMs(): number },
    /** The client will never take any more bytes. */
    private readonly onLost: () => void,
  ) {}

  /** The system has taken everything. */
  get isEmpty(): boolean {
    return this.unsent === null;
  }

  get unsentBytes(): number {
    return this.unsent?.length ?? 0;
  }

  /** Tries again to send what is queued. Returns whether the queue became empty. */
  flush(): boolean {
    const { unsent } = this;
    if (unsent === null) return false;
    const written = this.socket.write(unsent);
    if (written < 0) this.onLost();
    if (written <= 0) return false;
    this.progressMs = this.clock.nowMs();
    this.unsent = written < unsent.length ? unsent.subarray(written) : null;
    return this.unsent === null;
  }

  /** Drops what is queued, because nobody will take it. */
  discard(): void {
    this.unsent = null;
  }

  /**
   * Begins to gather output that leaves with `send`: in one packet if it is small; large parts are not copied for that. The
   * buffer is shared by all connections, so nothing else may be sent in between.
   */
  begin(): void {
    filled = 0;
  }

  put(bytes: Uint8Array): void {
    if (bytes.length > scratch.length - filled) {
      this.send();
      this.sendUncopied(bytes);
      return;
    }
    scratch.set(bytes, filled);
    filled += bytes.length;
  }

  /** Every character must be one byte (Latin-1). */
  putText(text: string): void {
    if (text.length > scratch.length - filled) return this.put(Buffer.from(text, "latin1"));
    scratch.write(text, filled, "latin1");
    filled += text.length;
  }

  /**
   * A whole number that is not negative, in decimal digits, with zeros before it if they are less than `least`. It costs no string, and numbers
   * below two thousand million no division of doubles.
   */
  putNumber(value: number, least = 1): void {
    if (scratch.length - filled < digitsMax) this.send();
    if (value <= int32Max) return putDigits(value, least);
    const billions = Math.floor(value / billion);
    putDigits(billions, 1);
    putDigits(value - billions * billion, 9);
  }

  send(): void {
    const length = filled;
    filled = 0;
    if (length > 0) this.sendScratch(length);
  }

  sendText(text: string): void {
    this.begin();
    this.putText(text);
    this.send();
  }

  /** One chunk (RFC 9112, 7.1). Every streamed token is one, so no string is allocated for its size. */
  putChunk(bytes: Uint8Array): void {
    if (scratch.length - filled < digitsMax) this.send();
    for (let shift = 28 - (Math.clz32(bytes.length) & ~3); shift >= 0; shift -= 4) {
      const digit = (bytes.length >>> shift) & 15;
      scratch[filled++] = digit < 10 ? 0x30 + digit : 0x57 + digit;
    }
    this.putLineEnd();
    this.put(bytes);
    this.putLineEnd();
  }

  putLineEnd(): void {
    if (scratch.length - filled < 2) this.send();
    scratch[filled++] = 13;
    scratch[filled++] = 10;
  }

  /** The empty line after the headers. */
  putHeadEnd(): void {
    this.putLineEnd();
    this.putLineEnd();
  }

  /** What the system does not take at once is copied out of the shared buffer. */
  private sendScratch(length: number): void {
    if (this.unsent !== null) return this.enqueue(Buffer.from(scratch.subarray(0, length)));
    const written = this.taken(this.socket.write(scratch, 0, length));
    if (written < length) this.enqueue(Buffer.from(scratch.subarray(written, length)));
  }

  private sendUncopied(bytes: Uint8Array): void {
    if (this.unsent !== null) return this.enqueue(bytes);
    const written = this.taken(this.socket.write(bytes));
    if (written < bytes.length) this.enqueue(bytes.subarray(written));
  }

  private taken(written: number): number {
    if (written >= 0) return written;
    this.onLost();
    return 0;
  }

  private enqueue(bytes: Uint8Array): void {
    this.progressMs = this.clock.nowMs();
    this.unsent = this.unsent === null ? bytes : Buffer.concat([this.unsent, bytes]);
  }
}

/** At least so many digits. */
function putDigits(value: number, least: number): void {
  let digits = 1;
  for (let above = 10; above <= value; above *= 10) digits += 1;
  if (digits < least) digits = least;
  const end = filled + digits;
  let rest = value;
  for (let at = end - 1; at >= filled; at -= 1) {
    // Exact for whole numbers of 31 bits, and quicker than a division.
    const tenth = (rest * 0.1) | 0;
    scratch[at] = 0x30 + rest - tenth * 10;
    rest = tenth;
  }
  filled = end;
}

/** Small responses are assembled here: what the system takes at once needs no memory of its own. */
const scratch = Buffer.alloc(64 * 1024);
/** How much of it is to be sent. */
let filled = 0;
/** No number that is written here has more digits. */
const digitsMax = 16;
const int32Max = 2 ** 31 - 1;
const billion = 1_000_000_000;
