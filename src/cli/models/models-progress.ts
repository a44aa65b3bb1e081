import { type Progress, shownBytes } from "../../../packages/embedded/src/addons/progress.ts";

/** Where progress is written to, such as standard error. */
export interface Screen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface ProgressDisplay {
  readonly show: (progress: Progress) => void;
  /** Clears the line. */
  readonly end: () => void;
}

/** Updates one line on a terminal. Elsewhere, as in a log, writes a line for each step and every few seconds of a download. */
export function progressDisplay(screen: Screen, nowMs: () => number): ProgressDisplay {
  let speed = speedometer();
  const onTerminal = screen.isTTY === true;
  const everyMs = onTerminal ? terminalMs : logMs;
  let step = "";
  let shownAtMs = -Infinity;
  let isLineOpen = false;
  return {
    show(progress) {
      const now = nowMs();
      const isNew = step !== `${progress.step} ${progress.what}`;
      if (isNew) speed = speedometer();
      const perSecond = progress.step === "fetching" ? speed(progress.bytes, now) : null;
      const isWhole = progress.step === "fetching" && progress.bytes === progress.bytesTotal;
      if (!isNew && !isWhole && now - shownAtMs < everyMs) return;
      step = `${progress.step} ${progress.what}`;
      shownAtMs = now;
      const line = inWords(progress, perSecond);
      if (!onTerminal) {
        screen.write(`${line}\n`);
        return;
      }
      screen.write(`\r\u001B[K${line.slice(0, (screen.columns ?? 80) - 1)}`);
      isLineOpen = true;
    },
    end() {
      if (isLineOpen) screen.write("\r\u001B[K");
      isLineOpen = false;
    },
  };
}

const terminalMs = 100;
const logMs = 5_000;

function inWords(progress: Progress, bytesPerSecond: number | null): string {
  switch (progress.step) {
    case "asking":
      return `Asking the registry for ${progress.what}`;
    case "fetching": {
      const percent = Math.floor((100 * progress.bytes) / Math.max(1, progress.bytesTotal));
      const rate = bytesPerSecond === null ? "" : `, ${shownBytes(Math.round(bytesPerSecond))}/s`;
      return `Fetching ${progress.what}: ${shownBytes(progress.bytes)} of ${shownBytes(progress.bytesTotal)}, ${percent} %${rate}`;
    }
    case "packing":
      return `Fetching ${progress.what} with npm, which shows no progress (the direct download failed: ${progress.reason})`;
    case "checking":
      return `Checking ${progress.what}`;
    case "unpacking":
      return `Unpacking ${progress.what}`;
  }
}

/** Measures the speed over the last few seconds; `null` until there is enough to measure. */
function speedometer(): (bytes: number, atMs: number) => number | null {
  let marks: readonly { readonly bytes: number; readonly atMs: number }[] = [];
  return (bytes, atMs) => {
    const last = marks.at(-1);
    // Thousands of chunks arrive: one mark every quarter of a second is enough.
    if (last === undefined || atMs - last.atMs >= markMs)
      marks = [...marks.filter((mark) => atMs - mark.atMs <= windowMs), { bytes, atMs }];
    const [first] = marks;
    if (first === undefined || atMs - first.atMs < markMs) return null;
    return Math.max(0, ((bytes - first.bytes) * 1000) / (atMs - first.atMs));
  };
}

const markMs = 250;
const windowMs = 5_000;
