import { existsSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Skipped } from "./servers/obtain.ts";
import { foundOrSkipped } from "./test-tools.ts";

/** A library that tells a program another time of day. */
export interface FakeTime {
  readonly path: string;
}

export function findFakeTime(): FakeTime | Skipped {
  const folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].filter((folder) => existsSync(folder));
  const places = folders.flatMap((folder) => [
    join(folder, "faketime"),
    ...readdirSync(folder).map((name) => join(folder, name, "faketime")),
  ]);
  const file = places.map((place) => join(place, "libfaketime.so.1")).find((one) => existsSync(one));
  const path = foundOrSkipped("faketime", "libfaketime.so.1", file ?? null);
  return path === null ? { skipped: "no libfaketime is here; the package `faketime` of the system brings it" } : { path };
}

/** The environment of a program whose clock is wrong by so much, such as `+1h`. The steady clock is left alone. */
export function wrongBy(offset: string, { path }: FakeTime): Readonly<Record<string, string>> {
  return { LD_PRELOAD: path, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: "1" };
}

/** A clock that can be set while a program runs. The library looks into the file whenever the program asks for the time of day. */
export class SettableClock {
  constructor(private readonly file: string) {
    this.set("+0");
  }

  /** By how much it is wrong from now on, such as `+25h`. */
  set(offset: string): void {
    writeFileSync(`${this.file}.new`, `${offset}\n`);
    renameSync(`${this.file}.new`, this.file);
  }

  environment({ path }: FakeTime): Readonly<Record<string, string>> {
    return { LD_PRELOAD: path, FAKETIME_TIMESTAMP_FILE: this.file, FAKETIME_NO_CACHE: "1", FAKETIME_DONT_FAKE_MONOTONIC: "1" };
  }
}
