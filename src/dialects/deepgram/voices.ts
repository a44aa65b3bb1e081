import type { Voices } from "../../channels/channel.ts";

const english =
  "amalthea andromeda apollo arcas aries asteria athena atlas aurora callista cora cordelia delia draco electra harmonia helena hera hermes " +
  "hyperion iris janus juno jupiter luna mars minerva neptune odysseus ophelia orion orpheus pandora phoebe pluto saturn selene thalia theia " +
  "vesta zeus";
const others =
  "agustina-es alvaro-es antonia-es aquila-es carina-es celeste-es diana-es estrella-es gloria-es javier-es luciano-es nestor-es olivia-es " +
  "selena-es silvia-es sirio-es valerio-es aurelia-de elara-de fabian-de julius-de kara-de lara-de viktoria-de beatrix-nl cornelia-nl " +
  "daphne-nl hestia-nl lars-nl leda-nl rhea-nl roman-nl sander-nl agathe-fr hector-fr cesare-it cinzia-it demetra-it dionisio-it elio-it " +
  "flavio-it livia-it maia-it melia-it perseo-it ama-ja ebisu-ja fujin-ja izanami-ja uzume-ja";

/** Voices that both generations of the models have stand for those of the OpenAI API. */
const standIns: readonly (readonly [name: string, voice: string])[] = [
  ["alloy", "asteria"],
  ["ash", "orion"],
  ["ballad", "arcas"],
  ["cedar", "orpheus"],
  ["coral", "luna"],
  ["echo", "arcas"],
  ["fable", "orpheus"],
  ["marin", "athena"],
  ["nova", "hera"],
  ["onyx", "zeus"],
  ["sage", "athena"],
  ["shimmer", "luna"],
  ["verse", "orion"],
];

/** The voices of https://developers.deepgram.com/docs/tts-models. New ones are passed on by their names. */
export const deepgramVoices: Voices = {
  names: new Map([...standIns, ...`${english} ${others}`.split(" ").map((name) => [name, name] as const)]),
  unknown: "pass",
  fallback: null,
};
