import { languages } from "../transcription/languages.ts";
import type { WhisperResult as Transcript, WhisperSegment as Segment } from "../transcription/whisper.ts";
import type { TranscriptionForm } from "./transcription-form.ts";

/** Transcribes, and calls back with each segment as soon as it is final. */
export type Transcribe = (signal: AbortSignal, onSegment: (segment: Segment) => void) => Promise<Transcript>;

export function transcriptBody(transcript: Transcript, task: "transcribe" | "translate", form: TranscriptionForm): string {
  const usage = usageOf(transcript);
  if (!form.verbose) return JSON.stringify({ text: transcript.text, usage });
  return JSON.stringify({
    task,
    language: languages.get(transcript.language) ?? transcript.language,
    duration: transcript.duration,
    text: transcript.text,
    ...(form.wantsSegments ? { segments: transcript.segments } : {}),
    ...(form.options.words ? { words: transcript.words } : {}),
    usage,
  });
}

/** One event per segment, and one with the whole text. Leaving the loop stops the transcription. */
export async function* transcriptEvents(transcribe: Transcribe, signal: AbortSignal): AsyncGenerator<string, void> {
  const stopped = new AbortController();
  const found: Segment[] = [];
  let hasText = false;
  let wake = (): void => {};
  let outcome: { readonly transcript: Transcript } | { readonly thrown: unknown } | null = null;
  const running = transcribe(AbortSignal.any([signal, stopped.signal]), (segment) => {
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
        // Segments begin with a space, but the whole text does not. The deltas must add up to the text.
        yield event({ type: "transcript.text.delta", delta: hasText ? segment.text : segment.text.trimStart() });
        hasText = true;
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
    stopped.abort();
    // The next job must not start while this one is running.
    await running;
  }
}

function event(content: object): string {
  return `data: ${JSON.stringify(content)}\n\n`;
}

function usageOf({ duration }: Transcript): object {
  return { type: "duration", seconds: Math.ceil(duration) };
}
