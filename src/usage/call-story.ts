import type { FailureKind } from "../operations/failure.ts";

/** What the short words of receipts and plans mean, for people: in a sentence that says what to do where something can be done. */
const verdicts: Readonly<Record<string, string>> = {
  taken: "was asked",
  probed: "was asked to find out whether it works again",
  ready: "could have been asked, and was not needed",
  cooling: "cooled down after failures",
  saturated: "was full: it had as many calls in flight as it may have",
  context_too_small: "takes no prompt of this length",
  key_channels: "may not be used by this key",
  half_open_busy: "was being tried by another call after it had cooled down",
  half_open_alone: "has just cooled down, and was not to be the only one asked",
};

export function verdictText(verdict: string): string {
  return verdicts[verdict] ?? verdict.replaceAll("_", " ");
}

/** Every kind of failure, so that a new one gets its sentence. */
const causes: Readonly<Record<FailureKind, string>> = {
  unreachable: "it could not be reached: check its address and the network",
  tls_failed: "its certificate could not be verified: check its address and the clock of this machine",
  connect_timeout: "it did not accept a connection in time",
  stale_socket: "it had closed a connection that was kept open",
  disconnected: "it closed the connection before it had answered",
  timed_out: "it took too long",
  overloaded: "it said that it is overloaded",
  rate_limited: "it said that it has too many requests (429)",
  quota_exhausted: "its quota is used up: check the account at the provider",
  unauthorized: "it refused its credential: check the key of the channel",
  model_missing: "it does not know the model: check the name in the channel's settings",
  misconfigured: "its settings cannot work: check the channel",
  redirected: "it redirected the request: check the address of the channel",
  invalid_request: "the request was invalid: the client has to change it",
  too_large: "the request was too large",
  context_length: "the prompt was too long for the model",
  content_policy: "its content policy refused the request",
  bad_response: "its answer could not be read",
  model_failed: "the model failed",
  unsupported: "it cannot do what was asked",
  ceiling: "more output was asked for than it allows",
  interrupted: "its answer broke off",
  client_gone: "the client left",
  deadline: "the time of the call was over, or another attempt was quicker",
  limited: "a limit of the key was reached",
  key_revoked: "the key was revoked",
  no_channel: "no channel could be asked",
  saturated: "every channel was full",
  store_unavailable: "the store could not record it",
  shutting_down: "the gateway was shutting down",
  internal: "a bug in the gateway: please report it with the log line",
};

export function causeText(cause: string | null): string {
  if (cause === null) return "";
  return (causes as Readonly<Partial<Record<string, string>>>)[cause] ?? cause.replaceAll("_", " ");
}

/** A call in one sentence: who answered, after what, and why it failed. */
export function storyOf(request: CallStory): string {
  const failed = request.attempts.filter(({ outcome }) => outcome === "failed");
  const detours = failed.length === 0 ? "" : ` after ${failed.length} failed ${failed.length === 1 ? "attempt" : "attempts"}`;
  if (request.state === "complete") {
    return `${request.channel ?? "Nobody"} answered${detours === "" ? " at once" : detours}.`;
  }
  if (request.state === "abandoned") return `The client left before the answer was complete${detours}.`;
  if (request.state === "interrupted") return `The answer of ${request.channel ?? "a channel"} broke off: ${causeText(request.error)}.`;
  if (request.state === "unknown") return "The gateway was stopped during this call, so that its end is not known.";
  if (request.attempts.length === 0) return `No channel was asked: ${causeText(request.error)}.`;
  return `It failed${detours}: ${causeText(request.error)}.`;
}

export interface CallStory {
  readonly state: string;
  readonly channel: string | null;
  readonly error: string | null;
  readonly attempts: readonly { readonly outcome: string }[];
}
