/**
 * The requests that are kept while their answers are on the way, so that another channel can go on with them. There may be
 * thousands of long ones: beyond these bounds an answer that breaks off is told as broken.
 */
export class HeldRequests {
  private held = 0;

  /** False where there is no room. Whoever is given some gives it back once. */
  hold(bytes: number): boolean {
    if (bytes > requestBytesMax || this.held + bytes > heldBytesMax) return false;
    this.held += bytes;
    return true;
  }

  release(bytes: number): void {
    this.held -= bytes;
  }
}

const requestBytesMax = 1024 * 1024;
const heldBytesMax = 64 * 1024 * 1024;
