import { failure, type Failure } from "../operations/failure.ts";

/**
 * The uploads that are being read at this moment. Each costs memory and disk at the pace of its client, so that there is a
 * bound on them of its own. One that is complete and waits for its channel does not count.
 */
export class Uploads {
  #reading = 0;

  /** Reads one more, unless there are too many: then none of its body is read. */
  async read<T>(uploadsMax: number, upload: () => Promise<T>): Promise<T | Failure> {
    if (this.#reading >= uploadsMax) return tooManyUploads;
    this.#reading += 1;
    try {
      return await upload();
    } finally {
      this.#reading -= 1;
    }
  }
}

const tooManyUploads = failure("saturated", "too many uploads at once", {
  message: "The gateway is at its limit of concurrent uploads. Try again later.",
});
