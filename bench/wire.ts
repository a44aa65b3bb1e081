/** Reads the answers that arrive on one HTTP/1.1 connection, as cheaply as exactness allows: the client shares the machine with what it measures. */
export class AnswerReader {
  status = 0;
  head = "";
  private expecting: "head" | "length" | "size" | "data" | "data end" | "trailer" | "close" = "head";
  private remaining = 0;
  private kept = "";

  /** Hands every piece of body to `onBody`; true when the answer that was being read has ended. */
  feed(bytes: Buffer, onBody: (body: Buffer) => void): boolean {
    let at = 0;
    while (at < bytes.length) {
      switch (this.expecting) {
        case "head": {
          this.kept += bytes.toString("latin1", at);
          const end = this.kept.indexOf("\r\n\r\n");
          if (end < 0) {
            if (this.kept.length > headBytesMax) throw new Error("an answer's head has no end");
            return false;
          }
          at = bytes.length - (this.kept.length - end - 4);
          const head = this.kept.slice(0, end);
          this.kept = "";
          if (this.begin(head) === "empty") return this.finish();
          break;
        }
        case "length":
        case "data": {
          const taken = Math.min(this.remaining, bytes.length - at);
          onBody(bytes.subarray(at, at + taken));
          at += taken;
          this.remaining -= taken;
          if (this.remaining > 0) return false;
          if (this.expecting === "length") return this.finish();
          this.expecting = "data end";
          this.remaining = 2;
          break;
        }
        case "data end": {
          const taken = Math.min(this.remaining, bytes.length - at);
          at += taken;
          this.remaining -= taken;
          if (this.remaining === 0) this.expecting = "size";
          break;
        }
        case "size": {
          const end = bytes.indexOf(10, at);
          this.kept += bytes.toString("latin1", at, end < 0 ? bytes.length : end);
          if (end < 0) return false;
          at = end + 1;
          this.remaining = Number.parseInt(this.kept, 16);
          if (Number.isNaN(this.remaining)) throw new Error(`not a chunk size: ${JSON.stringify(this.kept)}`);
          this.kept = "";
          this.expecting = this.remaining === 0 ? "trailer" : "data";
          break;
        }
        case "trailer": {
          const end = bytes.indexOf(10, at);
          this.kept += bytes.toString("latin1", at, end < 0 ? bytes.length : end);
          if (end < 0) return false;
          at = end + 1;
          const blank = this.kept.trim() === "";
          this.kept = "";
          if (blank) return this.finish();
          break;
        }
        case "close":
          onBody(at === 0 ? bytes : bytes.subarray(at));
          return false;
      }
    }
    return false;
  }

  header(name: string): string | null {
    return new RegExp(`^${name}:[ \t]*(.*?)[ \t]*$`, "im").exec(this.head)?.[1] ?? null;
  }

  private begin(head: string): "empty" | "body follows" {
    this.head = head;
    this.status = Number(head.slice(9, 12));
    const length = this.header("content-length");
    if (length !== null) {
      this.expecting = "length";
      this.remaining = Number(length);
    } else if (/chunked/i.test(this.header("transfer-encoding") ?? "")) {
      this.expecting = "size";
    } else {
      this.expecting = "close";
    }
    return length === "0" ? "empty" : "body follows";
  }

  private finish(): true {
    this.expecting = "head";
    return true;
  }
}

const headBytesMax = 32 * 1024;
