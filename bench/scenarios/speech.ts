import { models, recitalFrames, speak, type SpeechBehaviour } from "../ask.ts";
import { type Bench, interleaved, type Rounds, type Scenario, segmentSeconds, stopwatch } from "../bench.ts";
import { answeredLoop, closedLoop } from "../load.ts";
import { mp3FrameBytes } from "../recording.ts";
import { compared, type Row } from "../report.ts";
import { medianDifference, medianRatio, quantile } from "../statistics.ts";

/** What a listener waits longer for having a gateway in between, and what it costs to pass audio on. */
export const speech: Scenario = async (bench) => {
  const passed = await firstAudio(bench, { title: "speech passed on", behaviour: "spoken", perSecond: 25 });
  const transcoding = await bench.gatewayWith({
    channels: [{ name: "up", port: bench.upstream.ports[0] ?? 0, models: [models.sampled], speechFormats: ["pcm"] }],
  });
  const targets = bench.targets.flatMap((target) => (target.name === "gateway" ? (transcoding ?? []) : target));
  // Ten streams a second are ten seconds of audio a second for the encoder: more would measure its queue.
  const transcoded = await firstAudio({ ...bench, targets }, { title: "speech transcoded", behaviour: "sampled", perSecond: 10 });
  await transcoding?.stop();
  const { cpu } = await recitals(bench);
  return [
    waited("time to the first audio byte, mp3 passed on, p50", passed),
    waited("time to the first audio byte, pcm made mp3, p50", transcoded),
    {
      bar: "",
      measure: "CPU per megabyte of mp3 passed on",
      unit: "us",
      raw: cpu,
      judgement: compared("gateway/floor", medianRatio(cpu.gateway ?? [], cpu.floor ?? [])),
    },
    {
      bar: "",
      measure: "CPU per megabyte of mp3 passed on",
      unit: "us",
      raw: { gateway: cpu.gateway ?? [], nginx: cpu.nginx ?? [] },
      judgement: compared("gateway/nginx", medianRatio(cpu.gateway ?? [], cpu.nginx ?? [])),
    },
  ] satisfies Row[];
};

/** The floor and nginx pass on what they are given: where the gateway transcodes, they show the samples' own way. */
async function firstAudio(
  bench: Bench,
  { title, behaviour, perSecond }: { title: string; behaviour: SpeechBehaviour; perSecond: number },
): Promise<Rounds> {
  const { options } = bench;
  await interleaved(
    bench,
    { title: `${title}, warm-up`, targets: ["direct", "floor", "gateway"], rounds: 1, measures: [] },
    async (target) => {
      await answeredLoop(target, speak(behaviour), { perSecond, seconds: options.quick ? 1 : 5 });
      return {};
    },
  );
  const { first } = await interleaved(
    bench,
    {
      title,
      targets: ["direct", "nginx", "floor", "gateway"],
      rounds: Math.max(2, options.rounds - 1),
      referenceRounds: 1,
      measures: ["first"],
    },
    async (target) => {
      const { firstMs } = await answeredLoop(target, speak(behaviour), { perSecond, seconds: options.seconds });
      return { first: quantile(firstMs, 0.5) };
    },
  );
  return first;
}

async function recitals(bench: Bench) {
  const { options } = bench;
  const targets = ["nginx", "floor", "gateway"] as const;
  await interleaved(bench, { title: "recitals, warm-up", targets, rounds: 1, measures: [] }, async (target) => {
    await closedLoop(target, speak("recited"), { connections: 8, seconds: options.quick ? 1 : 3 });
    return {};
  });
  return interleaved(bench, { title: "recitals", targets, rounds: options.rounds, measures: ["cpu"] }, async (target) => {
    const taken = stopwatch(target);
    const { requests } = await closedLoop(target, speak("recited"), { connections: 8, seconds: segmentSeconds(options, target) });
    return { cpu: taken() / (requests * recitalMegabytes) };
  });
}

const recitalMegabytes = (recitalFrames * mp3FrameBytes) / 1_000_000;

function waited(measure: string, raw: Rounds): Row {
  return {
    bar: "",
    measure,
    unit: "ms",
    raw,
    judgement: compared("gateway - direct", medianDifference(raw.gateway ?? [], raw.direct ?? [])),
  };
}
