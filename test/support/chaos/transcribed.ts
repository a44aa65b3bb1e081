import { textOf } from "./ask.ts";
import type { Exchange } from "./exchange.ts";
import type { Performance } from "./performance.ts";

/** A transcript of tagged words, one a second, in whatever format is asked for. */
export function transcribed(exchange: Exchange): Performance {
  const { manner, ask } = exchange;
  const words = Array.from({ length: manner.tokens }, (_, index) => manner.words(index, 0));
  const text = words.join("");
  const asked = textOf(ask.fields["response_format"]) ?? "json";
  const format = manner.transcriptFormat ?? (manner.subtitles || !["srt", "vtt"].includes(asked) ? asked : "json");
  const usage = { type: "duration", seconds: words.length };
  return {
    streams: ask.stream,
    contentType: ask.stream ? "text/event-stream; charset=utf-8" : typeOf(format),
    count: words.length,
    step(index) {
      const word = words[index] ?? manner.words(index, 0);
      return { audio: null, text: word, payload: JSON.stringify({ type: "transcript.text.delta", delta: word }) };
    },
    closing: () => [JSON.stringify({ type: "transcript.text.done", text, usage }), ...(manner.done ? ["[DONE]"] : [])],
    whole: () => manner.bytesOf(rendered(format, words, { text, usage, timed: manner.times })),
  };
}

interface Facts {
  readonly text: string;
  readonly usage: object;
  readonly timed: boolean;
}

function typeOf(format: string): string {
  return format.endsWith("json") ? "application/json" : "text/plain; charset=utf-8";
}

function rendered(format: string, words: readonly string[], { text, usage, timed }: Facts): string {
  switch (format) {
    case "text":
      return `${text}\n`;
    case "srt":
      return words.map((word, at) => `${at + 1}\n${time(at, ",")} --> ${time(at + 1, ",")}\n${word.trim()}\n\n`).join("");
    case "vtt":
      return `WEBVTT\n\n${words.map((word, at) => `${time(at, ".")} --> ${time(at + 1, ".")}\n${word.trim()}\n\n`).join("")}`;
    case "verbose_json": {
      const segments = words.map((word, id) => ({ id, seek: 0, start: id, end: id + 1, text: word, tokens: [id], temperature: 0 }));
      const facts = { task: "transcribe", language: "english", duration: words.length, text };
      return JSON.stringify({ ...facts, ...(timed ? { segments } : {}), usage });
    }
    case "diarized_json": {
      const segments = words.map((word, at) => ({
        type: "transcript.text.segment",
        id: `seg_${at}`,
        start: at,
        end: at + 1,
        text: word,
        speaker: "A",
      }));
      return JSON.stringify({ task: "transcribe", duration: words.length, text, segments, usage });
    }
    default:
      return JSON.stringify({ text, usage });
  }
}

function time(seconds: number, point: string): string {
  return `00:00:${String(seconds).padStart(2, "0")}${point}000`;
}
