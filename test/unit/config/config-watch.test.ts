import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { oneAtATime, stateOf, watchFile, type FileWatch, type WatchOptions } from "../../../src/config/watch.ts";

const open: FileWatch[] = [];
afterEach(() => {
  for (const watch of open.splice(0)) watch.close();
});

function directory(): string {
  return mkdtempSync(join(tmpdir(), "sluice-watch-"));
}

/** Counts the calls, and waits for the next one. */
function watching(path: string, options: WatchOptions = { debounceMs: 20, pollMs: 50 }) {
  let calls = 0;
  let wake: () => void = () => {};
  const watch = watchFile(
    path,
    () => {
      calls++;
      wake();
    },
    options,
  );
  open.push(watch);
  return {
    watch,
    get calls() {
      return calls;
    },
    next: () =>
      new Promise<void>((resolve) => {
        wake = resolve;
      }),
  };
}

describe("a change is detected", () => {
  test("when the file is written, and again when it is written again", async () => {
    const file = join(directory(), "sluice.yaml");
    writeFileSync(file, "a");
    const seen = watching(file);
    for (const text of ["bb", "ccc", "dddd"]) {
      const next = seen.next();
      writeFileSync(file, text);
      await next;
    }
    expect(seen.calls).toBe(3);
  });

  test("when it happened between the last read and the start of the watch", async () => {
    const file = join(directory(), "sluice.yaml");
    writeFileSync(file, "a");
    const since = stateOf(file);
    writeFileSync(file, "bb");
    const seen = watching(file, { debounceMs: 20, pollMs: 50, since });
    await seen.next();
    expect(seen.calls).toBe(1);
  });

  test("when another file is renamed over it, as editors do", async () => {
    const place = directory();
    const file = join(place, "sluice.yaml");
    writeFileSync(file, "a");
    const seen = watching(file);
    for (const text of ["b", "c"]) {
      const next = seen.next();
      writeFileSync(join(place, ".sluice.yaml.swp"), text);
      renameSync(join(place, ".sluice.yaml.swp"), file);
      await next;
    }
  });

  test("when a symbolic link on its path is swapped, as mounted ConfigMaps do", async () => {
    const place = directory();
    const publish = (version: string): void => {
      mkdirSync(join(place, `..${version}`));
      writeFileSync(join(place, `..${version}`, "sluice.yaml"), "same size");
      symlinkSync(`..${version}`, join(place, "..data_tmp"));
      renameSync(join(place, "..data_tmp"), join(place, "..data"));
    };
    publish("v1");
    symlinkSync("..data/sluice.yaml", join(place, "sluice.yaml"));
    const outside = join(directory(), "link.yaml");
    symlinkSync(join(place, "sluice.yaml"), outside);
    for (const path of [join(place, "sluice.yaml"), outside]) {
      const seen = watching(path, { debounceMs: 20, pollMs: 60_000 });
      const next = seen.next();
      publish(path === outside ? "v3" : "v2");
      await next;
      expect(seen.calls).toBe(1);
      seen.watch.close();
    }
  });

  test("when the target of a symbolic link is written", async () => {
    const real = join(directory(), "real.yaml");
    const link = join(directory(), "link.yaml");
    writeFileSync(real, "a");
    symlinkSync(real, link);
    const seen = watching(link, { debounceMs: 20, pollMs: 60_000 });
    const next = seen.next();
    writeFileSync(real, "bb");
    await next;
  });

  test("when the file is created again after it was deleted", async () => {
    const file = join(directory(), "sluice.yaml");
    writeFileSync(file, "a");
    const seen = watching(file);
    unlinkSync(file);
    const next = seen.next();
    writeFileSync(file, "back again");
    await next;
    expect(seen.calls).toBe(1);
  });

  test("by polling, if the file system reports nothing", async () => {
    const place = directory();
    const file = join(place, "later", "sluice.yaml");
    const seen = watching(file, { debounceMs: 5, pollMs: 20 });
    const next = seen.next();
    mkdirSync(join(place, "later"));
    writeFileSync(file, "a");
    await next;
  });
});

describe("the callback is not called", () => {
  /** Long enough for a wrong call to arrive: several polls and debounces. */
  const wrongCallMs = 250;

  test("for other files beside it", async () => {
    const place = directory();
    const file = join(place, "sluice.yaml");
    writeFileSync(file, "a");
    const seen = watching(file);
    for (let at = 0; at < 20; at++) writeFileSync(join(place, `other-${at}`), "x");
    await Bun.sleep(wrongCallMs);
    expect(seen.calls).toBe(0);
  });

  test("more than once for a burst of writes", async () => {
    const file = join(directory(), "sluice.yaml");
    writeFileSync(file, "a");
    const seen = watching(file, { debounceMs: 100, pollMs: 60_000 });
    const next = seen.next();
    for (let at = 0; at < 50; at++) writeFileSync(file, "x".repeat(at + 2));
    await next;
    await Bun.sleep(wrongCallMs);
    expect(seen.calls).toBe(1);
  });

  test("after it was closed, or while the file does not exist", async () => {
    const place = directory();
    const file = join(place, "sluice.yaml");
    writeFileSync(file, "a");
    const seen = watching(file);
    rmSync(file);
    await Bun.sleep(wrongCallMs);
    seen.watch.close();
    writeFileSync(file, "bb");
    await Bun.sleep(wrongCallMs);
    expect(seen.calls).toBe(0);
  });
});

describe("work that must not overlap itself", () => {
  test("runs once more for all requests made meanwhile, even if it failed", async () => {
    const ends: ((failed: boolean) => void)[] = [];
    const ask = oneAtATime(async () => {
      if (await new Promise<boolean>((end) => ends.push(end))) throw new Error("expected");
    });
    const first = ask();
    await Promise.all([ask(), ask()]);
    expect(ends.length).toBe(1);
    ends[0]?.(true);
    expect(await first.catch(String)).toBe("Error: expected");
    expect(ends.length).toBe(2);
    ends[1]?.(false);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ends.length).toBe(2);
    const last = ask();
    expect(ends.length).toBe(3);
    ends[2]?.(false);
    await last;
    expect(ends.length).toBe(3);
  });
});
