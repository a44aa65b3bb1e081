/**
 * Limits the memory of requests that are kept while their answers are streamed, so that another channel can continue them. Beyond the
 * limit, an answer that breaks off is reported as interrupted.
 */
export class HeldRequests {
  private held = 0;

  /** Returns false if there is no room. Otherwise `release` must be called once. */
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
