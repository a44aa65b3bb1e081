// Needs: quiet. It mostly waits for uploads that stall.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { Uploads, type UploadSlot } from "../../src/http/forms/uploads.ts";
import { formOf, recording, uploadsOf } from "../support/audio-call.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { RawResponse } from "../support/raw-response.ts";

setDefaultTimeout(60_000);

const uploadsMax = 4;

/** Uploads under a clock that is moved by hand. */
class Scene {
  readonly uploads = new Uploads();
  #timers: { readonly ms: number; readonly rings: () => void }[] = [];

  begin(keyId: string, bytes = 0): Reading {
    const reading = new Reading();
    const upload = (place: UploadSlot) => reading.begin(place, bytes);
    void this.uploads.read({ uploadsMax, keyId, after: this.after }, upload).then((outcome) => (reading.outcome = outcome));
    return reading;
  }

  readonly after = (ms: number, then: () => void): (() => void) => {
    const timer = { ms, rings: then };
    this.#timers.push(timer);
    return () => void (this.#timers = this.#timers.filter((each) => each !== timer));
  };

  get timers(): number {
    return this.#timers.length;
  }

  async ring(ms: number): Promise<void> {
    const due = this.#timers.filter((each) => each.ms === ms);
    this.#timers = this.#timers.filter((each) => each.ms !== ms);
    for (const { rings } of due) rings();
    await settled();
  }
}

class Reading {
  outcome: "read" | Failure | null = null;
  isRead = false;
  #finish: (outcome: "read" | Failure) => void = () => {};

  begin(place: UploadSlot, bytes: number): Promise<"read" | Failure> {
    this.isRead = true;
    place.bytes = bytes;
    return new Promise((resolve) => {
      this.#finish = resolve;
      place.onEnd = resolve;
    });
  }

  async finish(): Promise<void> {
    this.#finish("read");
    await settled();
  }

  get refusal(): string | null {
    return this.outcome !== null && this.outcome !== "read" && isFailure(this.outcome) ? this.outcome.detail : null;
  }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("where all places for uploads are taken", () => {
  test("a key that has them all is refused at once, and one that has none gets one in a moment", async () => {
    const scene = new Scene();
    const greedy = [300, 100, 200, 400].map((bytes) => scene.begin("greedy", bytes));
    const more = scene.begin("greedy");
    await settled();
    expect([more.isRead, more.refusal]).toEqual([false, "too many uploads at once"]);
    const modest = scene.begin("modest");
    await settled();
    expect([modest.isRead, modest.outcome]).toEqual([false, null]);
    await scene.ring(500);
    // The one of which least had come.
    expect(greedy.map(({ refusal }) => refusal)).toEqual([null, "an upload gave way to one of another key", null, null]);
    expect(modest.isRead).toBe(true);
    // Two keys: each has two places, so that one more can be had, and no third.
    const second = scene.begin("modest");
    await scene.ring(500);
    expect([second.isRead, greedy.filter(({ refusal }) => refusal !== null).length]).toEqual([true, 2]);
    const third = scene.begin("modest");
    await scene.ring(500);
    expect([third.isRead, third.refusal]).toEqual([false, "too many uploads at once"]);
    expect(scene.timers).toBe(0);
  });

  test("a place that becomes free goes to whoever waits, and nothing is ended for it", async () => {
    const scene = new Scene();
    const greedy = [1, 2, 3, 4].map(() => scene.begin("greedy"));
    const modest = scene.begin("modest");
    await settled();
    await greedy[0]!.finish();
    expect([modest.isRead, scene.timers]).toEqual([true, 0]);
    expect(greedy.map(({ outcome }) => outcome)).toEqual(["read", null, null, null]);
  });

  test("by keys that have their share, nobody is ended", async () => {
    const scene = new Scene();
    const all = ["a", "b", "c", "d"].map((key) => scene.begin(key));
    const fifth = scene.begin("e");
    await settled();
    expect([fifth.isRead, fifth.refusal]).toEqual([false, "too many uploads at once"]);
    expect(all.map(({ outcome }) => outcome)).toEqual([null, null, null, null]);
  });
});

describe("at a running gateway", () => {
  const [slow, quick, narrow] = ["sk-slow-0123456789abcdef", "sk-quick-0123456789abcdef", "sk-narrow-0123456789abcdef"];
  let chaos: Chaos;
  let gateway: Gateway;
  const large = recording(2 * 1024 * 1024);

  beforeAll(async () => {
    chaos = await startChaos();
    gateway = await startGateway({
      config: {
        server: { uploads: 4 },
        keys: [
          { name: "slow", key: slow },
          { name: "quick", key: quick },
          { name: "narrow", key: narrow, limits: { concurrency: 2 } },
        ],
        channels: [{ name: "a", base_url: chaos.url, api_key: "sk-upstream", models: ["m"] }],
      },
    });
  });
  afterAll(async () => {
    await gateway.kill();
    await chaos.close();
  });

  /** An upload that is sent up to its last byte, which `finish` sends. */
  async function stuck(key: string): Promise<{ finish(): Promise<number>; answer(): Promise<RawResponse>; close(): void }> {
    const { body, type } = formOf([["model", "m"]], large);
    const head = `POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: ${type}\r\n`;
    const connection = await RawConnection.open(gateway.url);
    await connection.send(Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`));
    await connection.send(body.subarray(0, -1));
    const answer = () => connection.receive(new RawResponse());
    return {
      answer,
      finish: async () => {
        await connection.send(body.subarray(-1));
        return (await answer()).status;
      },
      close: () => connection.close(),
    };
  }

  test("one key with slow uploads in all places keeps no other key out", async () => {
    const held = await Promise.all(Array.from({ length: 4 }, () => stuck(slow)));
    await eventually("all are being read", () => uploadsOf(gateway.pid).length === 4);
    const other = await stuck(quick);
    expect(await other.finish()).toBe(200);
    const first = await Promise.race(held.map(async (one) => (await one.answer()).status));
    expect(first).toBe(503);
    for (const one of [...held, other]) one.close();
  });

  test("uploads that are being read count among the calls of their key", async () => {
    const held = [await stuck(narrow), await stuck(narrow)];
    await eventually("both have their places", async () => (await chat(gateway, { model: "m" }, { key: narrow })).status === 429);
    const third = await stuck(narrow);
    const refused = await third.answer();
    expect([refused.status, refused.text]).toEqual([429, expect.stringContaining("concurrency_limit")]);
    expect(await held[0]!.finish()).toBe(200);
    expect((await chat(gateway, { model: "m" }, { key: narrow })).status).toBe(200);
    held[1]!.close();
    third.close();
    held[0]!.close();
    const free = async () => {
      const calls = await Promise.all([1, 2].map(() => chat(gateway, { model: "m" }, { key: narrow })));
      return calls.every(({ status }) => status === 200);
    };
    await eventually("the place of one that left is free again", free);
  });
});
