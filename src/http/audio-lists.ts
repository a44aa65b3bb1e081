import { modelOperationsOf, voicesOf, type Route } from "../channels/channel.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import type { HttpResponse, ResponseHead } from "../net/server/http-response.ts";
import { jsonAnswer, modelsFor, type ModelScope } from "./models.ts";

/** GET /v1/audio/models: the models that the key may use for speech, in the form that chat interfaces read. */
export function listAudioModels(snapshot: Snapshot, key: ModelScope, head: ResponseHead): HttpResponse {
  const models = modelsFor("speech", snapshot, key).map(([id]) => ({ id, name: id }));
  return jsonAnswer({ models }, head);
}

/** GET /v1/audio/voices: the voices of these models, or of the one that the query names. */
export function listVoices(snapshot: Snapshot, key: ModelScope, head: ResponseHead, query: string): HttpResponse {
  const model = new URLSearchParams(query).get("model");
  const routes = modelsFor("speech", snapshot, key).flatMap(([id, route]) => (model === null || id === model ? [route] : []));
  const voices = [...voiceNames(routes)].map((id) => ({ id, name: id }));
  return jsonAnswer({ voices }, head);
}

/** As clients name them. Where a channel takes any name, its voices are not known, and those of the OpenAI API stand for them. */
function voiceNames(routes: readonly Route[]): ReadonlySet<string> {
  const names = new Set<string>();
  let takesAny = false;
  for (const route of routes) {
    for (const { deployment } of route.tiers.flat()) {
      const { channel, model } = deployment;
      if (!(modelOperationsOf(channel, model) ?? channel.capabilities.operations).includes("speech")) continue;
      const voices = voicesOf(channel, model);
      for (const name of voices.names.keys()) if (names.size < voicesMax) names.add(name);
      takesAny ||= voices.unknown === "pass" && voices.names.size === 0;
    }
  }
  return takesAny ? names.union(usualVoices) : names;
}

const usualVoices: ReadonlySet<string> = new Set([
  "alloy",
  "ash",
  "ballad",
  "cedar",
  "coral",
  "echo",
  "fable",
  "marin",
  "nova",
  "onyx",
  "sage",
  "shimmer",
  "verse",
]);
const voicesMax = 10_000;
