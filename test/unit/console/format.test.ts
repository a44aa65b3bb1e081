import { describe, expect, test } from "bun:test";
import {
  ago,
  amount,
  bytes,
  change,
  chartMoment,
  count,
  duration,
  moment,
  money,
  percent,
  short,
} from "../../../src/console/core/format.ts";

/** Units are set off by a narrow space that does not break, which would be hard to read here. */
function plain(text: string): string {
  return text.replaceAll("\u202f", " ");
}

describe("figures", () => {
  test.each([
    [null, "–"],
    [0, "0"],
    [7.25, "7.3"],
    [999, "999"],
    [1000, "1 k"],
    [12_345, "12.3 k"],
    [123_456, "123 k"],
    [999_499, "999 k"],
    [999_950, "1 M"],
    [2_500_000_000, "2.5 G"],
    [-4200, "-4.2 k"],
  ])("%p is written %p", (value, text) => expect(plain(short(value))).toBe(text));

  test("are written whole where there is room", () => {
    expect(count(1_234_567)).toBe("1,234,567");
    expect(count(null)).toBe("–");
    expect(plain(bytes(12))).toBe("12 B");
    expect(plain(bytes(12_300))).toBe("12.3 kB");
  });

  test.each([
    [null, "–"],
    [0, "$0"],
    [0.000_000_4, "< $0.000001"],
    [0.000_003_64, "$0.0000036"],
    [0.0042, "$0.0042"],
    [0.25, "$0.25"],
    [12.3, "$12.30"],
    [12_345.6, "$12,346"],
  ])("%p dollars are %p: an unknown price is not free", (value, text) => expect(money(value)).toBe(text));

  test.each([
    [null, "–"],
    [0, "0 ms"],
    [0.42, "0.4 ms"],
    [999.4, "999 ms"],
    [999.6, "1.00 s"],
    [1240, "1.24 s"],
    [14_230, "14.2 s"],
    [59_960, "1 min"],
    [185_000, "3 min 5 s"],
    [7_800_000, "2 h 10 min"],
    [4 * 86_400_000, "4 d"],
  ])("%p milliseconds are %p", (value, text) => expect(plain(duration(value))).toBe(text));

  test.each([
    [0, 0, "–"],
    [0, 10, "0 %"],
    [1, 100_000, "< 0.1 %"],
    [1, 40, "2.5 %"],
    [1, 2, "50 %"],
  ])("%p of %p is %p", (part, of, text) => expect(plain(percent(part, of))).toBe(text));

  test("of two spans are compared where there is something to compare with", () => {
    expect(change(10, 0)).toBeNull();
    expect(plain(change(15, 10)?.text ?? "")).toBe("+50 %");
    expect(plain(change(5, 10)?.text ?? "")).toBe("−50 %");
    expect(change(1000, 999)?.text).toBe("unchanged");
    expect([change(200, 10)?.text, change(30_000, 10)?.text]).toEqual(["+20×", "more than 100×"]);
  });

  test("of a call say what its operation is measured in", () => {
    const none = { prompt_tokens: null, completion_tokens: null, audio_seconds: null, characters: null };
    expect(amount(none)).toBe("–");
    expect(plain(amount({ ...none, prompt_tokens: 1200, completion_tokens: 5 }))).toBe("1.2 k → 5");
    expect(plain(amount({ ...none, audio_seconds: 61 }))).toBe("1 min 1 s of audio");
    expect(plain(amount({ ...none, characters: 300 }))).toBe("300 characters");
  });
});

describe("moments", () => {
  const nowMs = Date.parse("2026-06-15T12:00:00Z");

  test.each([
    [null, "never"],
    ["2026-06-15T11:59:59.500Z", "now"],
    ["2026-06-15T11:59:40Z", "20 s ago"],
    ["2026-06-15T11:48:30Z", "11 min ago"],
    ["2026-06-15T09:10:00Z", "2 h ago"],
    ["2026-06-01T12:00:00Z", "14 d ago"],
    ["2026-06-15T12:00:20Z", "in 20 s"],
    ["nonsense", "–"],
  ])("%p is %p", (at, text) => expect(plain(ago(at, nowMs))).toBe(text));

  test("are as short as they stay clear, whatever the zone", () => {
    expect(moment(new Date(nowMs - 1000).toISOString(), nowMs)).toMatch(/^\d\d:\d\d:\d\d$/);
    expect(moment("2026-03-10T12:00:00Z", nowMs)).toMatch(/^10 Mar, \d\d:\d\d$/);
    expect(moment("2024-03-10T12:00:00Z", nowMs)).toBe("10 Mar 2024");
    expect(moment(null)).toBe("–");
    expect(moment("nonsense")).toBe("–");
  });

  test("under a chart are days, or times of the day where marks are closer", () => {
    const noon = new Date(2026, 5, 15, 12, 30).getTime();
    expect([chartMoment(noon, 86_400_000), chartMoment(noon, 3_600_000), chartMoment(noon, 1_000)]).toEqual([
      "15 Jun",
      "12:30",
      "12:30:00",
    ]);
    expect(chartMoment(new Date(2026, 5, 15).getTime(), 3_600_000)).toBe("15 Jun");
  });
});
