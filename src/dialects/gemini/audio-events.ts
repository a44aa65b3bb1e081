import type { Emission } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { audioOf } from "../../operations/speech/speech-events.ts";
import type { TokenUsage } from "../../operations/usage.ts";
import type { SseEvent } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { hasOtherSamples } from "../readers/audio-reader.ts";
import type { AudioPiece } from "../readers/audio-track.ts";
import type { AudioEventDecoder, AudioEvents } from "../readers/speech-event-reader.ts";
import { parseUntrusted, textOf } from "../untrusted.ts";
import { errorIn } from "./answer.ts";
import { blockReasonOf, candidatesOf, endReasonOf, finishOf, indexOf, partsOf } from "./response-parts.ts";
import { geminiUsage } from "./usage.ts";

/** Reads the events of an answer that is spoken. Each is a response with the next samples; the last one has a `finishReason`. */
export class GeminiAudio implements AudioEventDecoder {
  /** A model that does not stream its speech sends all of it in one event. */
  readonly eventBytesMax = 48 * 1024 * 1024;
  private usage: TokenUsage | null = null;
  private spoke = false;

  read(events: readonly SseEvent[]): AudioEvents {
    const pieces: AudioPiece[] = [];
    const skipped: Emission[] = [];
    for (const event of events) {
      const value = parseUntrusted(event.data, event.frame, "data: ".length, -2);
      const error = errorIn(value);
      if (error !== null) return { pieces, skipped, end: null, cause: explainInBand(error) };
      if (!isJsonObject(value)) {
        skipped.push({ kind: "skipped", detail: "an event is not a JSON object" });
        continue;
      }
      this.usage = geminiUsage(value["usageMetadata"]) ?? this.usage;
      const candidate = candidatesOf(value).find((one) => indexOf(one) === 0);
      const audio = audioIn(candidate);
      if ("blame" in audio) return { pieces, skipped, end: null, cause: audio };
      pieces.push(...audio);
      this.spoke ||= audio.length > 0;
      const reason = endReasonOf(candidate) || (candidate === undefined ? blockReasonOf(value) : null);
      if (reason === null || reason === "") continue;
      const cause = this.unfinished(reason);
      return { pieces, skipped, end: cause === null ? { usage: this.usage, frame: null } : null, cause };
    }
    return { pieces, skipped, end: null, cause: null };
  }

  /** Why an answer with this reason is not all of the speech; null if it is. */
  private unfinished(reason: string): Failure | null {
    if (reason === "STOP" && this.spoke) return null;
    const finish = finishOf(reason, false);
    if (finish === "length") return failure("model_failed", "the speech was cut off at the model's limit", { message: tooLong });
    const message = finish === "content_filter" || !this.spoke ? refused : undefined;
    return failure("model_failed", `the speech ended with ${reason}`, message === undefined ? {} : { message });
  }
}

const tooLong = "The text is longer than the model can speak. Send it in parts.";
const refused = "The model did not speak this text. Try again, or change the text.";

function audioIn(candidate: JsonObject | undefined): readonly AudioPiece[] | Failure {
  const pieces: AudioPiece[] = [];
  for (const part of candidate === undefined ? [] : partsOf(candidate)) {
    const media = part["inlineData"];
    // A model that speaks may write as well, which nobody asked for.
    if (!isJsonObject(media)) continue;
    if (hasOtherSamples(textOf(media["mimeType"]).toLowerCase())) {
      return failure("bad_response", "the answer is samples of another rate or of more than one channel");
    }
    const audio = audioOf(textOf(media["data"]));
    if (audio === null) return failure("bad_response", "an event has no audio that can be read");
    if (audio.length > 0) pieces.push({ audio, frame: null });
  }
  return pieces;
}
