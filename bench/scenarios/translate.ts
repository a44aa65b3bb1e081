import { ask, askInMessages } from "../ask.ts";
import { cpuOf, inTurns, type Scenario } from "../bench.ts";
import { closedLoop } from "../load.ts";
import { judged, type Row } from "../report.ts";
import { medianRatio } from "../statistics.ts";

/** What it costs that a client and its upstream speak different APIs: the same calls as Messages and as chat completions, over one channel. */
export const translate: Scenario = async (bench) => {
  const { options, targets } = bench;
  const gateway = targets.find(({ name }) => name === "gateway");
  if (gateway === undefined) return [];
  const variants = { chat: gateway, messages: gateway };
  const cost = (
    title: string,
    behaviour: "json" | "burst",
    connections: number,
  ): Promise<Record<keyof typeof variants, readonly number[]>> =>
    inTurns({ title, rounds: options.rounds, variants }, async (target, name) => {
      const asked = name === "chat" ? ask(behaviour) : askInMessages(behaviour);
      const { allMicros, result } = await cpuOf(target, () => closedLoop(target, asked, { connections, seconds: options.seconds }));
      return allMicros / result.requests;
    });
  await closedLoop(gateway, askInMessages("json"), { connections: 32, seconds: options.quick ? 1 : 3 });
  await closedLoop(gateway, askInMessages("burst"), { connections: 32, seconds: options.quick ? 1 : 3 });
  const whole = await cost("translated answers", "json", 32);
  const burst = await cost("translated bursts", "burst", 32);
  return [
    {
      bar: "P17",
      measure: "CPU per JSON request, as chat completions and as Messages",
      unit: "us",
      raw: { floor: whole.chat, gateway: whole.messages },
      judgement: judged("messages/chat", medianRatio(whole.messages, whole.chat), { limit: 1.3, sense: "at most" }),
    },
    {
      bar: "P17",
      measure: "CPU per burst of 100 chunks, as chat completions and as Messages",
      unit: "us",
      raw: { floor: burst.chat, gateway: burst.messages },
      judgement: judged("messages/chat", medianRatio(burst.messages, burst.chat), { limit: 2, sense: "at most" }),
    },
  ] satisfies Row[];
};
