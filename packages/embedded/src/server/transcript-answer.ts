import { languages } from "../transcription/languages.ts";
import type { WhisperResult as Transcript, WhisperSegment as Segment } from "../transcription/whisper.ts";
import type { TranscriptionForm } from "./transcription-form.ts";

/** Listens, and tells each segment as it is found. */
export type Hear = (signal: AbortSignal, onSegment: (segment: Segment) => void) => Promise<Transcript>;

export function transcriptBody(transcript: Transcript, task: "transcribe" | "translate", form: TranscriptionForm): string {
  const usage = usageOf(transcript);
  if (!form.verbose) return JSON.stringify({ text: transcript.text, usage });
  return JSON.stringify({
    task,
    language: languages.get(transcript.language) ?? transcript.language,
    duration: transcript.duration,
    text: transcript.text,
    ...(form.wantsSegments ? { segments: transcript.segments } : {}),
    ...(form.wishes.words ? { words: transcript.words } : {}),
    usage,
  });
}

/** One event for each segment, and one with the whole. Leaving the loop ends the listening. */
export async function* transcriptEvents(hear: Hear, signal: AbortSignal): AsyncGenerator<string, void> {
  const left = new AbortController();
  const found: Segment[] = [];
  let begun = false;
  let wake = (): void => {};
  let outcome: { readonly transcript: Transcript } | { readonly thrown: unknown } | null = null;
  const listening = hear(AbortSignal.any([signal, left.signal]), (segment) => {
    found.push(segment);
    wake();
  }).then(
    (transcript) => {
      outcome = { transcript };
      wake();
    },
    (thrown: unknown) => {
      outcome = { thrown };
      wake();
    },
  );
  const next = (): typeof outcome => outcome;
  try {
    for (;;) {
      const segment = found.shift();
      if (segment !== undefined) {
        // Segments begin with a blank, the whole text does not: together the deltas are the text.
        yield event({ type: "transcript.text.delta", delta: begun ? segment.text : segment.text.trimStart() });
        begun = true;
        continue;
      }
      const ended = next();
      if (ended === null) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      if ("thrown" in ended) throw ended.thrown;
      yield event({ type: "transcript.text.done", text: ended.transcript.text, usage: usageOf(ended.transcript) });
      yield "data: [DONE]\n\n";
      return;
    }
  } finally {
    left.abort();
    // The next job must not begin beside this one.
    await listening;
  }
}

function event(content: object): string {
  return `data: ${JSON.stringify(content)}\n\n`;
}

function usageOf({ duration }: Transcript): object {
  return { type: "duration", seconds: Math.ceil(duration) };
}
