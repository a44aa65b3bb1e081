import { expect, test } from "bun:test";
import { lineWriter, logText } from "../../../src/telemetry/log-text.ts";
import { Log } from "../../../src/telemetry/log.ts";

const line = {
  time: "2026-01-02T12:34:56.789Z",
  level: "warn",
  event: "cooling",
  channel: "one",
  detail: "two words",
  for_ms: 5,
  none: null,
} as const;

test("a line for a person has the time of day, the level, the event and the fields that have a value", () => {
  expect(logText(line, false)).toBe('12:34:56.789 warn  cooling channel=one detail="two words" for_ms=5');
});

test("colours do not change what it says", () => {
  const coloured = logText(line, true);
  expect(coloured).toContain("\u001b[33m");
  expect(Bun.stripANSI(coloured)).toBe(logText(line, false));
});

test.each(["a\nb", "a\u001b[2Jb", "a\u009b31mb", "a\u202eb", "a\u2028b", "a\u007fb", "a\u0000b"])(
  "nothing in a field can begin a line or move the cursor: %j",
  (detail) => {
    expect(logText(Object.assign({}, line, { detail }), false)).toMatch(/^[\x20-\x7e]+$/);
  },
);

test("text is for terminals, unless the setting says otherwise", () => {
  const isText = (format: "auto" | "json" | "text", isTerminal: boolean): boolean =>
    !lineWriter(format, { isTerminal, isColoured: false })(line).startsWith("{");
  expect([isText("auto", true), isText("auto", false), isText("json", true), isText("text", false)]).toEqual([true, false, false, true]);
});

test("a log writes its lines in the form that it was given", () => {
  let written = "";
  const log = new Log(
    (bytes) => {
      written += new TextDecoder().decode(bytes);
      return bytes.length;
    },
    "info",
    lineWriter("text", { isTerminal: true, isColoured: false }),
  );
  log.info("started", { port: 1 });
  log.flush();
  expect(written).toMatch(/^\d\d:\d\d:\d\d\.\d{3} info {2}started port=1\n$/);
});
