// Needs: quiet. It mostly waits for uploads that stall.
import { afterEach, expect, setDefaultTimeout } from "bun:test";
import {
  accessLine,
  beginUpload,
  formOf,
  noUploadLeft,
  open,
  openTranscription,
  recording,
  transcribe,
  uploadsOf,
} from "../support/audio-call.ts";
import { expectTranscript } from "../support/audio-outcome.ts";
import { eventually } from "../support/eventually.ts";
import { expectRefusal } from "../support/outcome.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { RawResponse } from "../support/raw-response.ts";
import { Stage, type Row } from "../support/stage.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const mebibyte = 1024 * 1024;
const uploads = 3;
const uploadReadMs = 1_500;
const stage = new Stage({ config: { server: { uploads, upload_read: `${uploadReadMs}ms` } } });
const large = recording(3 * mebibyte);

afterEach(() => noUploadLeft(stage.gateway));

/** An upload that is sent up to its last byte. */
class Stuck {
  private constructor(
    readonly id: string,
    readonly connection: RawConnection,
    readonly last: Uint8Array,
  ) {}

  static async begin(row: Row, id: string): Promise<Stuck> {
    const { connection, body } = await beginUpload(row, id, large);
    await connection.send(body.subarray(0, -1));
    return new Stuck(id, connection, body.subarray(-1));
  }

  async finish(): Promise<RawResponse> {
    await this.connection.send(this.last);
    return this.connection.receive(new RawResponse());
  }
}

stage.row("more uploads at once than may be read are refused before they are read, until one is complete", async (row) => {
  const stuck = await Promise.all(Array.from({ length: uploads }, (_, at) => Stuck.begin(row, `stuck-${at}`)));
  await eventually("all are being read", () => uploadsOf(row.gateway.pid).length === uploads);
  // Nothing of its body is ever sent: the answer does not wait for it.
  const { type } = formOf([], large);
  const call = await open(row, () => ({
    path: "/v1/audio/transcriptions",
    headers: { "Content-Type": type, "Content-Length": String(mebibyte) },
  }));
  const refused = await call.reply;
  expectRefusal(refused, 503, "overloaded");
  expect(refused.response.header("retry-after")).toBe("1");
  expect(refused.error?.message).toMatch(/concurrent uploads/);
  expect(await accessLine(row, refused)).toMatchObject({ status: 503, attempts: 0, bytes_in: 0 });
  // Whoever sends no file is not concerned.
  expect((await row.ask()).status).toBe(200);
  const answers = await Promise.all(stuck.map((one) => one.finish()));
  expect(answers.map(({ status }) => status)).toEqual(stuck.map(() => 200));
  for (const { connection } of stuck) connection.close();
  expectTranscript(await transcribe(row, { file: large }), row.a);
});

stage.row("uploads that are complete and wait for their channel keep nobody out", async (row) => {
  row.a.behaviour = "fault:silent";
  const waiting = [];
  for (let upload = 0; upload < uploads + 2; upload += 1) {
    waiting.push(await openTranscription(row, { file: large }));
    await eventually("it waits for its channel", () => row.a.ledger.chats.length === upload + 1);
  }
  expect(uploadsOf(row.gateway.pid).length).toBe(uploads + 2);
  for (const call of waiting) call.abort();
  for (const call of waiting) expect(await accessLine(row, call)).toMatchObject({ state: "abandoned", attempts: 1 });
});

stage.row("clients that leave in their uploads, and uploads that are too slow, give their places back", async (row) => {
  for (let round = 0; round < 3; round += 1) {
    const stuck = await Promise.all(Array.from({ length: uploads }, (_, at) => Stuck.begin(row, `left-${round}-${at}`)));
    await eventually("all are being read", () => uploadsOf(row.gateway.pid).length === uploads);
    const startedMs = performance.now();
    if (round < 2) for (const { connection } of stuck) connection[round === 0 ? "close" : "reset"]();
    else {
      const answers = await Promise.all(stuck.map(({ connection }) => connection.receive(new RawResponse())));
      expect(answers.map(({ status }) => status)).toEqual(stuck.map(() => 408));
      expect(performance.now() - startedMs).toBeLessThan(slowed(4 * uploadReadMs));
      for (const { connection } of stuck) connection.close();
    }
    for (const one of stuck) expect(await accessLine(row, one)).toMatchObject({ status: round < 2 ? 499 : 408, attempts: 0 });
  }
  expectTranscript(await transcribe(row, { file: large }), row.a);
});
