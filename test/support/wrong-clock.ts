import { existsSync, readdirSync } from "node:fs";
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
