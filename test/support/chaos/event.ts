import type { Manner } from "./manner.ts";

/** One server-sent event in the manner's own framing. */
export function eventText(manner: Manner, payload: string, place: { readonly first?: boolean; readonly last?: boolean } = {}): string {
  const splits = manner.splitsData && payload.startsWith("{");
  const data = splits ? ["{", payload.slice(1)] : [payload];
  const lines = [...manner.linesBefore, ...data.map((line) => manner.dataPrefix + line)];
  const mark = manner.byteOrderMark && place.first === true ? "\uFEFF" : "";
  const blank = place.last === true && !manner.finalBlankLine ? "" : manner.endOfLine;
  return mark + lines.join(manner.endOfLine) + manner.endOfLine + blank;
}
