/** A transcript as WebVTT, which players show over the recording; null if its format has no times. */
export function subtitlesOf(format: string, text: string): string | null {
  switch (format) {
    case "vtt":
      return text;
    case "srt":
      return `WEBVTT\n\n${text.replaceAll("\r\n", "\n").replaceAll(/(\d\d:\d\d:\d\d),(\d{3})/g, "$1.$2")}`;
    case "verbose_json":
      return fromSegments(text);
    default:
      return null;
  }
}

function fromSegments(text: string): string | null {
  let found: unknown;
  try {
    found = (JSON.parse(text) as { readonly segments?: unknown }).segments;
  } catch {
    return null;
  }
  if (!Array.isArray(found)) return null;
  const cues = found.flatMap((segment: { readonly start?: unknown; readonly end?: unknown; readonly text?: unknown } | null) => {
    if (typeof segment?.start !== "number" || typeof segment.end !== "number" || typeof segment.text !== "string") return [];
    // An arrow or an empty line would end the cue.
    const line = segment.text.replaceAll("-->", "→").replaceAll(/\s+/g, " ").trim();
    return [`${timeOf(segment.start)} --> ${timeOf(segment.end)}\n${line}\n`];
  });
  return `WEBVTT\n\n${cues.join("\n")}`;
}

function timeOf(seconds: number): string {
  const ms = Math.max(0, Math.round(seconds * 1000));
  const part = (value: number, length: number): string => String(Math.floor(value)).padStart(length, "0");
  return `${part(ms / 3_600_000, 2)}:${part((ms / 60_000) % 60, 2)}:${part((ms / 1000) % 60, 2)}.${part(ms % 1000, 3)}`;
}

/** The loudest sample of each of so many equal parts of a recording, between 0 and 1. */
export function peaksOf(samples: Float32Array, count: number): readonly number[] {
  const width = samples.length / count;
  return Array.from({ length: count }, (_, at) => {
    let peak = 0;
    for (let index = Math.floor(at * width); index < Math.floor((at + 1) * width); index += 1)
      peak = Math.max(peak, Math.abs(samples[index] ?? 0));
    return Math.min(1, peak);
  });
}
