import { expect, setDefaultTimeout, test } from "bun:test";
import { shippedPrices } from "../../src/usage/shipped-prices.ts";
import { CommandLine } from "../support/command-line.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

interface ShownPrice {
  readonly id: string | null;
  readonly source: string;
  readonly model: string;
  readonly provider: string | null;
  readonly from_at: string | null;
  readonly state: string;
  readonly in_force: boolean;
  readonly rates: Readonly<Record<string, number>>;
}

const today = (): string => `${new Date().toISOString().slice(0, 10)}T00:00:00.000Z`;

test("a price that is set applies from today, exactly, and overrides the shipped prices", async () => {
  const cli = new CommandLine();
  const shipped = shippedPrices().find(({ model }) => !model.includes("*"));
  const model = shipped?.model ?? "";
  const before = await cli.json<ShownPrice[]>("prices", "list", model);
  expect(before.filter(({ source }) => source === "shipped").length).toBeGreaterThan(0);
  const set = await cli.json<ShownPrice>("prices", "set", model, "--input", "0.1", "--cached-input", "0.000000001", "--output", "$2");
  expect(set).toMatchObject({ source: "store", model, provider: null, from_at: today(), state: "now", in_force: true });
  expect(set.rates).toEqual({ input: 0.1, cached_input: 0.000000001, output: 2 });
  const holding = (await cli.json<ShownPrice[]>("prices", "list", model)).filter((price) => price.model === model);
  expect(holding.map(({ source }) => source)).toEqual(["store"]);
  const all = (await cli.json<ShownPrice[]>("prices", "list", model, "--all")).filter((price) => price.model === model);
  expect(all.find(({ source }) => source === "shipped")).toMatchObject({ state: "hidden", in_force: false });
});

test("a later price applies from its day on, and ends the one before", async () => {
  const cli = new CommandLine();
  await cli.json("prices", "set", "m", "--from", "2020-01-01", "--input", "1");
  await cli.json("prices", "set", "m", "--from", "2021-01-01", "--input", "2");
  await cli.json("prices", "set", "m", "--from", "2099-01-01", "--input", "3");
  await cli.json("prices", "set", "m", "--from", "2099-01-01", "--input", "4");
  const states = async (...options: readonly string[]): Promise<unknown> =>
    (await cli.json<ShownPrice[]>("prices", "list", "m", ...options))
      .filter(({ model }) => model === "m")
      .map(({ state, rates }) => [state, rates["input"]]);
  expect(await states()).toEqual([
    ["now", 2],
    ["later", 4],
  ]);
  expect(await states("--all")).toEqual([
    ["over", 1],
    ["now", 2],
    ["later", 4],
  ]);
});

test("a price of the file overrides one that is set, which is reported, and is changed only there", async () => {
  const cli = new CommandLine({ prices: [{ model: "home-*", input: 0, output: 0 }] });
  const { code, out, err } = await cli.run(["prices", "set", "home-*", "--input", "1"]);
  expect([code, out.includes("hidden"), err]).toEqual([0, true, expect.stringContaining("another price takes precedence")]);
  const [listed] = (await cli.json<ShownPrice[]>("prices", "list", "home-1")).filter(({ model }) => model === "home-*");
  expect(listed).toMatchObject({ source: "file", rates: { input: 0, output: 0 } });
  expect((await cli.here(["prices", "remove", "home-*"])).code).toBe(0);
  expect(await cli.here(["prices", "remove", "home-*"])).toMatchObject({ code: 1, err: expect.stringContaining(cli.config) });
});

test("a price is removed by its model, or by its id where there are several", async () => {
  const cli = new CommandLine();
  await cli.json("prices", "set", "m", "--input", "1", "--note", "why");
  await cli.json("prices", "set", "m", "--provider", "router", "--input", "2");
  const several = await cli.here(["prices", "remove", "m"]);
  expect([several.code, several.err]).toEqual([64, expect.stringContaining("give the id")]);
  expect((await cli.here(["prices", "remove", "m", "--provider", "router"])).code).toBe(0);
  const [left] = (await cli.json<ShownPrice[]>("prices", "list", "m")).filter(({ source }) => source === "store");
  expect(await cli.json<unknown>("prices", "remove", left?.id ?? "")).toEqual({ removed: left?.id ?? "" });
  expect(await cli.here(["prices", "remove", "m"])).toMatchObject({ code: 1, err: expect.stringContaining("No such price") });
  const shipped = shippedPrices().find(({ model }) => !model.includes("*"))?.model ?? "";
  expect(await cli.here(["prices", "remove", shipped])).toMatchObject({ code: 1, err: expect.stringContaining("shipped with Sluice") });
});

test("a price beyond ten thousand dollars is refused", async () => {
  const cli = new CommandLine();
  expect((await cli.json<ShownPrice>("prices", "set", "m", "--input", "10000", "--second", "10000", "--call", "10000")).rates["call"]).toBe(
    10_000,
  );
  for (const rate of ["input", "output", "characters", "second", "call", "long-output"]) {
    expect(await cli.here(["prices", "set", "m", `--${rate}`, "10000.01"])).toMatchObject({
      code: 64,
      err: expect.stringContaining("of at most 10000"),
    });
  }
});

test("every price is listed once, in columns", async () => {
  const cli = new CommandLine();
  const { code, out } = await cli.run(["prices", "list", "--all"]);
  const [heading = "", ...rows] = out.trimEnd().split("\n");
  expect([code, rows.length]).toEqual([0, shippedPrices().length]);
  for (const row of rows) expect(row.slice(heading.indexOf("SOURCE"))).toBe("shipped");
  const none = await cli.here(["prices", "list", "nobody-has-this"]);
  expect(none.out.includes("nobody")).toBe(false);
});
