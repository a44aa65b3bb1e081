/** Where the bytes go. */
export interface OutputSocket {
  /** Returns how many bytes the system took; less than nothing where it takes none. */
  write(bytes: Uint8Array, offset?: number, length?: number): number;
}

/** Whoever waits for the client to take them. */
export interface OutputOwner {
  /** The client has just taken something, or has just begun to take nothing. */
  moved(): void;
}

/** What is sent to one client. It leaves at once, in one write where that is possible; what the system does not take waits here. */
export class ClientOutput {
  private unsent: Uint8Array | null = null;

  constructor(
    private readonly socket: OutputSocket,
    private readonly owner: OutputOwner,
  ) {}

  /** The system has taken everything. */
  get isEmpty(): boolean {
    return this.unsent === null;
  }

  /** Tries once more to send what waits. Returns whether all of it was taken just now. */
  flush(): boolean {
    const { unsent } = this;
    if (unsent === null) return false;
    const written = this.socket.write(unsent);
    if (written <= 0) return false;
    this.owner.moved();
    this.unsent = written < unsent.length ? unsent.subarray(written) : null;
    return this.unsent === null;
  }

  /** Nobody is there to take it. */
  forget(): void {
    this.unsent = null;
  }

  /** Each of its characters is one byte. */
  text(text: string): void {
    if (text.length > scratch.length) return this.sendOwned(Buffer.from(text, "latin1"));
    scratch.write(text, 0, "latin1");
    this.sendScratch(text.length);
  }

  /** A small body leaves in one packet with what stands around it; a large one is not copied for that. */
  joined(before: string, bytes: Uint8Array, behind: string): void {
    const length = before.length + bytes.length + behind.length;
    if (length > scratch.length) {
      this.text(before);
      this.sendOwned(bytes);
      if (behind !== "") this.text(behind);
      return;
    }
    scratch.write(before, 0, "latin1");
    scratch.set(bytes, before.length);
    if (behind !== "") scratch.write(behind, before.length + bytes.length, "latin1");
    this.sendScratch(length);
  }

  /** One chunk of the chunked framing. */
  chunk(bytes: Uint8Array): void {
    if (bytes.length <= chunkBytesMax) this.sendScratch(putChunk(bytes));
    else this.joined(`${bytes.length.toString(16)}\r\n`, bytes, "\r\n");
  }

  /** What is in the scratch memory is copied where the system does not take it at once. */
  private sendScratch(length: number): void {
    if (this.unsent !== null) return this.keep(Buffer.from(scratch.subarray(0, length)));
    const written = Math.max(0, this.socket.write(scratch, 0, length));
    if (written < length) this.keep(Buffer.from(scratch.subarray(written, length)));
  }

  private sendOwned(bytes: Uint8Array): void {
    if (this.unsent !== null) return this.keep(bytes);
    const written = Math.max(0, this.socket.write(bytes));
    if (written < bytes.length) this.keep(bytes.subarray(written));
  }

  private keep(bytes: Uint8Array): void {
    this.owner.moved();
    this.unsent = this.unsent === null ? bytes : Buffer.concat([this.unsent, bytes]);
  }
}

/** A chunk with its size and its end, in the scratch memory. Every token is one: no text is made for it. */
function putChunk(bytes: Uint8Array): number {
  let at = 0;
  for (let shift = 28 - (Math.clz32(bytes.length) & ~3); shift >= 0; shift -= 4) {
    const digit = (bytes.length >>> shift) & 15;
    scratch[at++] = digit < 10 ? 0x30 + digit : 0x57 + digit;
  }
  scratch[at++] = 13;
  scratch[at++] = 10;
  scratch.set(bytes, at);
  at += bytes.length;
  scratch[at++] = 13;
  scratch[at++] = 10;
  return at;
}

/** Where small answers are put together: what the system takes at once needs no memory of its own. */
const scratch = Buffer.alloc(64 * 1024);
const chunkBytesMax = scratch.length - 16;
