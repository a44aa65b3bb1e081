import { audioTypes } from "../../media/audio.ts";
import type { StreamReader } from "../dialect.ts";
import type { AudioWish } from "./audio-track.ts";

/** What a client is given: the media type, and how a failure can be told in it. */
export function audioShape({ events, wanted }: AudioWish): Pick<StreamReader, "type" | "shape"> {
  return events ? { type: "text/event-stream; charset=utf-8", shape: "events" } : { type: audioTypes[wanted], shape: "bytes" };
}
