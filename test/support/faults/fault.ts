import { voice } from "../chaos/answer.ts";
import type { Exchange } from "../chaos/exchange.ts";

/**
 * One way to misbehave. It takes the answer over and ends it, or it only changes the manner of the healthy answer
 * that follows; so faults combine, and the first one to end the exchange has the last word.
 */
export type Fault = (exchange: Exchange, argument: string) => Promise<void> | void;

export type Faults = Readonly<Record<string, Fault>>;

export function numberFrom(argument: string, otherwise: number): number {
  return argument === "" ? otherwise : Number(argument);
}

/** A count of tokens; `last` is all of a healthy answer's. */
export function stepsFrom(exchange: Exchange, argument: string, otherwise = 0): number {
  return argument === "last" ? voice(exchange).count : numberFrom(argument, otherwise);
}

/** `name=value;name=value` */
export function headersFrom(argument: string): [string, string][] {
  return argument
    .split(";")
    .filter((pair) => pair.includes("="))
    .map((pair) => {
      const equals = pair.indexOf("=");
      return [pair.slice(0, equals).trim(), pair.slice(equals + 1).trim()];
    });
}
