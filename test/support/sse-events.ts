/** Reads a finished stream strictly, so that what a lenient client would forgive is seen. */
export function sseEvents(bytes: Uint8Array | string): SseEvents {
  const text = typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes);
  const blocks = text.split(/\r\n\r\n|\n\n|\r\r/);
  const trailing = blocks.pop() ?? "";
  const lines = blocks.map((block) => block.split(/\r\n|\n|\r/));
  return {
    data: lines.flatMap((block) => {
      const data = block.filter((line) => line.startsWith("data:"));
      return data.length === 0 ? [] : [data.map(valueOf).join("\n")];
    }),
    comments: lines
      .flat()
      .filter((line) => line.startsWith(":"))
      .map(valueOf),
    others: lines.flat().filter((line) => !/^(data)?:/.test(line) && line !== ""),
    trailing,
  };
}

export interface SseEvents {
  /** The payload of each event. */
  readonly data: readonly string[];
  readonly comments: readonly string[];
  /** Lines that are neither data nor comments; a gateway should send none. */
  readonly others: readonly string[];
  /** What followed the last blank line: an event that was never finished. */
  readonly trailing: string;
}

function valueOf(line: string): string {
  return line.slice(line.indexOf(":") + 1).replace(/^ /, "");
}
