import { failure, type Failure } from "../../operations/failure.ts";

/**
 * The uploads that are being read at this moment. Each holds memory and disk space at the pace of its client, so their number is
 * limited. An upload that is complete and waits for its channel does not count. When all slots are taken, a key may not keep
 * more than its share while another key with less waits: after a moment in which a slot may become free, the key with the most
 * slots loses the upload of which the least has arrived.
 */
export class Uploads {
  readonly #reading: ActiveUpload[] = [];
  readonly #waiting: QueuedUpload[] = [];

  /** Reads one more upload. If there are too many, none of its body is read. */
  async read<T>({ uploadsMax, keyId, after }: UploadOptions, upload: (slot: UploadSlot) => Promise<T>): Promise<T | Failure> {
    const one = new ActiveUpload(keyId);
    if (this.#reading.length >= uploadsMax || this.#waiting.length > 0) {
      if (!this.#mayWait(keyId, uploadsMax) || !(await this.#freed(one, uploadsMax, after))) return tooManyUploads;
    } else this.#reading.push(one);
    try {
      return await upload(one);
    } finally {
      this.#left(one);
    }
  }

  /** A key with less than its share of the slots may wait for one, if another key has more than that. */
  #mayWait(keyId: string, uploadsMax: number): boolean {
    const share = this.#share(keyId, uploadsMax);
    if (this.#waiting.length >= uploadsMax) return false;
    const own = (one: { readonly keyId: string }): boolean => one.keyId === keyId;
    if (this.#reading.filter(own).length + this.#waiting.filter(own).length >= share) return false;
    return this.#greediest(share) !== null;
  }

  /** Resolves to whether a slot became free for it. */
  #freed(upload: ActiveUpload, uploadsMax: number, after: UploadOptions["after"]): Promise<boolean> {
    const { keyId } = upload;
    return new Promise((resolve) => {
      const end = (isFree: boolean): void => {
        disarm();
        resolve(isFree);
      };
      const waiting: QueuedUpload = { keyId, upload, end };
      const giveUp = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        end(false);
      };
      let disarm = after(patienceMs, () => {
        this.#greediest(this.#share(keyId, uploadsMax))?.end(gaveWay);
        disarm = after(endingMs, giveUp);
      });
      this.#waiting.push(waiting);
    });
  }

  #left(upload: ActiveUpload): void {
    const at = this.#reading.indexOf(upload);
    const next = this.#waiting.shift();
    if (next === undefined) this.#reading.splice(at, 1);
    else {
      this.#reading[at] = next.upload;
      next.end(true);
    }
  }

  /** The number of slots for each key, when all keys that want some share them equally. */
  #share(keyId: string, uploadsMax: number): number {
    const keys = new Set([keyId, ...this.#reading.map((one) => one.keyId), ...this.#waiting.map((one) => one.keyId)]);
    return Math.max(1, Math.floor(uploadsMax / keys.size));
  }

  /** Of the key with the most slots, and more than its share: the upload of which the least has arrived. */
  #greediest(share: number): ActiveUpload | null {
    const lists = [...Map.groupBy(this.#reading, (one) => (one.isEnding ? "" : one.keyId)).entries()];
    const most = lists
      .filter(([keyId, list]) => keyId !== "" && list.length > share)
      .reduce<readonly ActiveUpload[]>((longest, [, list]) => (list.length > longest.length ? list : longest), []);
    return most.reduce<ActiveUpload | null>((least, one) => (least === null || one.bytes < least.bytes ? one : least), null);
  }
}

export interface UploadOptions {
  readonly uploadsMax: number;
  readonly keyId: string;
  readonly after: (ms: number, then: () => void) => () => void;
}

/** A slot among the concurrent uploads. */
export interface UploadSlot {
  /** How many bytes have arrived. */
  bytes: number;
  /** Ends the upload, if its slot is needed for another key. */
  onEnd: (why: Failure) => void;
}

class ActiveUpload implements UploadSlot {
  bytes = 0;
  isEnding = false;
  onEnd: (why: Failure) => void = () => {};

  constructor(readonly keyId: string) {}

  end(why: Failure): void {
    this.isEnding = true;
    this.onEnd(why);
  }
}

interface QueuedUpload {
  readonly keyId: string;
  readonly upload: ActiveUpload;
  readonly end: (isFree: boolean) => void;
}

/** Most uploads are complete within this time. */
const patienceMs = 500;
/** An upload that was told to end does so at once, unless it waits for the disk. */
const endingMs = 5_000;

const tooManyUploads = failure("saturated", "too many uploads at once", {
  message: "The gateway is at its limit of concurrent uploads. Try again later.",
});

const gaveWay = failure("saturated", "an upload gave way to one of another key", {
  message:
    "This upload was stopped, because its key had more than its share of the concurrent uploads while other keys waited. Try again later.",
});
