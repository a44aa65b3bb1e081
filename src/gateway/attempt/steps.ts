import type { Codec, ExpectedSteps, NextStep, UpstreamRequest } from "../../dialects/dialect.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Exchange, Ports } from "../ports.ts";
import { explained, isSuccess, readWhole } from "./whole-answer.ts";

/** What the requests of a series need from their attempt, whose timeouts hold for all of them together. */
export interface StepTools {
  readonly send: (request: UpstreamRequest) => Exchange;
  readonly after: Ports["after"];
  readonly explain: Codec<never>["explain"];
  /** The longest answer to one of them. */
  readonly bytesMax: number;
  readonly progress: { headArrived(): void; bytesArrived(): void };
}

/** Requests that are sent one after the other. */
export interface SteppedExchange extends Pick<Exchange, "isUnsent"> {
  readonly outcome: Promise<WholeAnswer | Failure>;
  /** Ends the series at once: the request on the network, or the wait before the next one. */
  abort(): void;
}

/** Sends the requests of one attempt. The dialect decides after each which one comes next, until there is an answer or a failure. */
export function takeSteps(request: UpstreamRequest, answer: ExpectedSteps, tools: StepTools): SteppedExchange {
  let isAborted = false;
  let exchange: Exchange | null = null;
  let isFirst = true;
  let wake: (() => void) | null = null;

  const run = async (): Promise<WholeAnswer | Failure> => {
    let step: Pick<NextStep, "request" | "answer"> = { request, answer };
    for (;;) {
      exchange = tools.send(step.request);
      const came = await readStep(exchange, step.answer, tools);
      if (isAborted) return aborted;
      // The body of a failed answer may not have been read to its end.
      if (isFailure(came)) exchange.abort();
      const next = isFailure(came) ? (step.answer.retry?.(came) ?? came) : came;
      if (isFailure(next) || next.kind === "whole") return next;
      exchange = null;
      isFirst = false;
      if (next.afterMs > 0) await pause(next.afterMs);
      if (isAborted) return aborted;
      step = next;
    }
  };

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const disarm = tools.after(ms, resolve);
      wake = () => {
        disarm();
        resolve();
      };
    });

  const abort = (): void => {
    isAborted = true;
    exchange?.abort();
    wake?.();
  };
  return {
    outcome: run(),
    abort,
    get isUnsent() {
      return isFirst && exchange?.isUnsent === true;
    },
  };
}

async function readStep(exchange: Exchange, answer: ExpectedSteps, tools: StepTools): Promise<WholeAnswer | NextStep | Failure> {
  const reply = await exchange.reply;
  if (isFailure(reply)) return reply;
  tools.progress.headArrived();
  if (!isSuccess(reply)) return explained(reply, tools.explain);
  return readWhole<WholeAnswer | NextStep>(reply, answer.read, tools.bytesMax, tools.progress);
}

/** The attempt knows why it was ended. */
const aborted = failure("client_gone", "the series of requests was aborted");
