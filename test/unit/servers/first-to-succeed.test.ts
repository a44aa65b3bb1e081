import { describe, expect, test } from "bun:test";
import { AllFailed, firstToSucceed } from "../../../src/servers/first-to-succeed.ts";

/** Candidates that answer when they are told to, and a timer that goes off when it is told to. */
function stage(names: readonly string[]) {
  const asked = new Map<string, PromiseWithResolvers<string>>();
  const discarded: string[] = [];
  let timer: (() => void) | null = null;
  const result = firstToSucceed(
    names,
    (name) => {
      asked.set(name, Promise.withResolvers<string>());
      return asked.get(name)!.promise;
    },
    {
      staggerMs: 100,
      after: (_, then) => {
        timer = then;
        return () => (timer = null);
      },
      discard: (late) => void discarded.push(late),
    },
  );
  const settled = async (act: () => void): Promise<readonly string[]> => {
    act();
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
    return [...asked.keys()];
  };
  return {
    result,
    discarded,
    succeed: (name: string) => settled(() => asked.get(name)!.resolve(`${name}!`)),
    fail: (name: string) => settled(() => asked.get(name)!.reject(new Error(name))),
    wait: () => settled(() => timer?.()),
    waits: () => timer !== null,
  };
}

describe("of several candidates", () => {
  test("only the first is tried where it succeeds, and no timer is left", async () => {
    const { result, succeed, waits } = stage(["a", "b"]);
    expect(await succeed("a")).toEqual(["a"]);
    expect([await result, waits()]).toEqual(["a!", false]);
  });

  test("the next is tried when one fails, or takes long", async () => {
    const { result, fail, wait, succeed } = stage(["a", "b", "c"]);
    expect(await wait()).toEqual(["a", "b"]);
    expect(await fail("b")).toEqual(["a", "b", "c"]);
    await succeed("c");
    expect(await result).toBe("c!");
  });

  test("a slow first one still wins before the others, and what they bring later is discarded", async () => {
    const { result, wait, succeed, discarded, waits } = stage(["a", "b"]);
    await wait();
    await succeed("a");
    await succeed("b");
    expect([await result, discarded, waits()]).toEqual(["a!", ["b!"], false]);
  });

  test("all failing, the errors are told in the order of the candidates", async () => {
    const { result, wait, fail, waits } = stage(["a", "b"]);
    await wait();
    await fail("b");
    await fail("a");
    const error = await result.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AllFailed);
    expect((error as AllFailed).errors.map(String)).toEqual(["Error: a", "Error: b"]);
    expect(waits()).toBe(false);
  });

  test("none at all is a failure", async () => {
    expect(await stage([]).result.catch((error: unknown) => error)).toBeInstanceOf(AllFailed);
  });
});
