// Needs: quiet. It mostly waits for uploads while the disk fails.
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { accessLine, noUploadLeft, recording, transcribe } from "../support/audio-call.ts";
import { expectTranscript, expectUpload, lastAttempt } from "../support/audio-outcome.ts";
import { expectRefusal } from "../support/outcome.ts";
import { Stage } from "../support/stage.ts";

setDefaultTimeout(60_000);

const mebibyte = 1024 * 1024;
const directory = mkdtempSync(join(tmpdir(), "sluice-small-disk-"));
const mounted = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], { stderr: "ignore" }).success;

afterAll(() => {
  if (mounted) Bun.spawnSync(["umount", directory]);
  rmSync(directory, { recursive: true, force: true });
});

if (mounted) {
  const stage = new Stage({ env: { TMPDIR: directory } });

  stage.row("an upload that finds no room on the disk is refused, and the gateway lives on", async (row) => {
    for (let round = 0; round < 3; round += 1) {
      const reply = await transcribe(row, { file: recording(4 * mebibyte) });
      expectRefusal(reply, 500, "internal_error");
      expect(reply.error?.message).toMatch(/no room/);
      expect(reply.response.text).not.toMatch(/ENOSPC|sluice-small-disk/);
      expect(row.path(reply)).toBe("");
      expect(await accessLine(row, reply)).toMatchObject({ status: 500, attempts: 0, detail: expect.stringContaining("ENOSPC") });
      await noUploadLeft(row.gateway);
      // All of the room is given back.
      const { bfree, blocks } = statfsSync(directory);
      expect(bfree).toBe(blocks);
    }
    const file = recording(40_000);
    const reply = await transcribe(row, { file });
    expectTranscript(reply, row.a);
    expectUpload(lastAttempt(reply, row.a), file);
  });

  stage.row("of several at once each ends once, whoever finds room", async (row) => {
    const file = recording(700_000);
    const larger = recording(1_200_000);
    const replies = await Promise.all(Array.from({ length: 6 }, (_, at) => transcribe(row, { file: at % 2 === 0 ? file : larger })));
    for (const reply of replies) {
      if (reply.status === 200) expectTranscript(reply, row.a);
      else expectRefusal(reply, 500, "internal_error");
    }
    // What fits into memory needs no room on the disk.
    expect(replies.filter((_, at) => at % 2 === 0).map(({ status }) => status)).toEqual([200, 200, 200]);
    await noUploadLeft(row.gateway);
  });
} else {
  test.skip("a full disk: this machine does not let the test mount a small one", () => {});
}
