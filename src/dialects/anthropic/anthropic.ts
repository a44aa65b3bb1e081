import type { Address } from "../../channels/channel.ts";
import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { searchesWeb, type Conversation, type Tool } from "../../operations/conversation/conversation.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { lastMember, membersOf, valueOf, type JsonMember } from "../../operations/json.ts";
import { removals, setMember, splice, type Splice } from "../../operations/splice.ts";
import type { Dialect, EncodedRequest, ErrorResponse, ExpectedStream, StreamReader, Target, UpstreamHead } from "../dialect.ts";
import { explain } from "../errors/explain.ts";
import { messagesApi } from "../presets.ts";
import { conversationFor } from "../target-conversation.ts";
import { readMessage } from "./answer.ts";
import { betaHeader, betasFor, type SentBetas } from "./betas.ts";
import { foreignThinking, type KeptThinking } from "./foreign-thinking.ts";
import { messagesUrl, ownHost, withoutVersion, type AnthropicHost } from "./hosts.ts";
import { encodeMessages } from "./messages-body.ts";
import { messagesModel } from "./model-facts.ts";
import { MessagesStream } from "./stream.ts";
import { messagesTokenCount } from "./token-count.ts";

const { paths, ...addressing } = messagesApi;
const versionHeader = "anthropic-version";

/** The dialect of the Messages API on one of its hosts. Clients that speak the API themselves get it as it is, in both directions. */
export function anthropicOn(host: AnthropicHost): Dialect {
  return {
    name: host.dialect,
    chat: {
      encode: (ask, target) =>
        ask.surface === "anthropic-messages" ? spliced(ask, target, host) : translated(ask, conversationFor(ask, target), target, host),
      explain: host.explain ?? explainMessages,
    },
    defaults: { ...addressing, chatPath: paths.chatPath },
    models: {
      path: modelsPath,
      headers: { [versionHeader]: ownHost.version.value },
      read: readModels,
      next: nextModels,
    },
    tokenCount: messagesTokenCount(host),
  };
}

export const anthropic: Dialect = anthropicOn(ownHost);

/** The request of a client that speaks another API. */
function translated(ask: ChatRequest, conversation: Conversation | Failure, target: Target, host: AnthropicHost): EncodedRequest | Failure {
  if (isFailure(conversation)) return conversation;
  if (ask.choices > 1) return oneChoice;
  const { ceiling, model } = target;
  const { maxOutputTokens, tools } = conversation;
  const clampedTo = ceiling !== null && maxOutputTokens !== null && maxOutputTokens > ceiling ? ceiling : null;
  const betas = betasFor(target, host);
  const encoded = encodeMessages(conversation, { host, model, ceiling, betas: betas.names });
  if (isFailure(encoded)) return encoded;
  // The version that a client of this API named is about its own body, not about ours.
  const { [versionHeader]: _, ...forwarded } = target.forwarded;
  return {
    request: {
      method: "POST",
      url: messagesUrl(host, target.channel.address, model, ask.stream),
      headers: headersOf(ask.stream, forwarded, target, host, betas),
      body: encoded.body,
    },
    translated: true,
    hostedTools: searchesWeb(conversation, encoded.dropped),
    answer: expected(ask.stream, tools, host),
    clampedTo,
    voice: null,
    dropped: [...encoded.dropped, ...betas.dropped],
    fewerBetas: betas.fewer,
  };
}

const oneChoice = failure("unsupported", "the upstream gives one answer", {
  message: "This model gives one answer to a request.",
  param: "n",
});

/** The client's own bytes, with the few values that must change. */
function spliced(ask: ChatRequest, target: Target, host: AnthropicHost): EncodedRequest {
  const splices: Splice[] = [...foreignThinking(ask, keptThinking(target))];
  const betas = betasFor(target, host);
  if (host.modelInPath) splices.push(...movedToPath(ask, target, host, betas));
  else renameModel(ask, target, splices);
  const clampedTo = clamp(ask, target, splices);
  return {
    request: {
      method: "POST",
      url: messagesUrl(host, target.channel.address, target.model, ask.stream),
      headers: headersOf(ask.stream, target.forwarded, target, host, betas),
      body: splice(ask.body, splices),
    },
    translated: false,
    answer: expected(ask.stream, null, host),
    clampedTo,
    voice: null,
    dropped: cutWithBetas(ask, target, host) ? [...betas.dropped, betaField] : betas.dropped,
    fewerBetas: betas.fewer,
  };
}

/** A field that is refused without the beta feature that it belongs to, and that agents send for what they can do without. */
const betaField = "context_management";

function cutWithBetas({ members }: ChatRequest, { betas }: Target, { knownBetas }: AnthropicHost): boolean {
  return knownBetas !== null && betas === "none" && lastMember(members, betaField) !== undefined;
}

function keptThinking({ model, withoutReasoning }: Target): KeptThinking {
  if (withoutReasoning === true) return "none";
  return messagesModel(model).signs ? "signed" : "unsigned";
}

/** Every duplicate is renamed: an upstream that reads the first one must not see a model that the key may not use. */
function renameModel(ask: ChatRequest, target: Target, splices: Splice[]): void {
  const models = ask.members.filter(({ key }) => key === "model");
  if (models.length === 1 && target.model === ask.model) return;
  for (const { start, end } of models) splices.push({ start, end, text: JSON.stringify(target.model) });
}

/** What stands in the path on this host is cut out of the body; what stands in headers elsewhere is put in. */
function movedToPath(ask: ChatRequest, target: Target, host: AnthropicHost, betas: SentBetas): readonly Splice[] {
  const { body, document, members } = ask;
  const moved: ReadonlySet<string> = new Set([
    ...["model", "anthropic_version"],
    ...(host.streamInPath ? ["stream"] : []),
    ...(cutWithBetas(ask, target, host) ? [betaField] : []),
  ]);
  const spans = members.map(({ keyStart, end }) => ({ start: keyStart, end }));
  const kept = spans.filter((_, index) => !moved.has(members[index]?.key ?? ""));
  const added = [["anthropic_version", JSON.stringify(host.version.value)]];
  if (host.betas === "body" && betas.names.length > 0 && lastMember(members, "anthropic_beta") === undefined) {
    added.push(["anthropic_beta", JSON.stringify(betas.names)]);
  }
  const splices = [...removals(spans, kept)];
  for (const [key = "", json = ""] of added) splices.push(setMember(body, document, undefined, key, json));
  return splices;
}

/** Lowers a bound above the ceiling. Thinking counts among the tokens, so a budget for it that would not fit is lowered too. */
function clamp({ body, members }: ChatRequest, { ceiling }: Target, splices: Splice[]): number | null {
  if (ceiling === null) return null;
  let clampedTo: number | null = null;
  for (const member of members) {
    if (member.key !== "max_tokens" || !exceeds(body, member, ceiling)) continue;
    splices.push({ start: member.start, end: member.end, text: String(ceiling) });
    clampedTo = ceiling;
  }
  const thinking = clampedTo === null ? undefined : lastMember(members, "thinking");
  const budget = thinking?.kind === "object" ? lastMember(membersOf(body, thinking.start, thinking.end), "budget_tokens") : undefined;
  if (budget !== undefined && exceeds(body, budget, ceiling - 1)) {
    splices.push({ start: budget.start, end: budget.end, text: String(ceiling - 1) });
  }
  return clampedTo;
}

function exceeds(body: Uint8Array, member: JsonMember, most: number): boolean {
  return member.kind === "number" && (valueOf(body, member) as number) > most;
}

function headersOf(
  stream: boolean,
  forwarded: Target["forwarded"],
  { channel }: Target,
  host: AnthropicHost,
  { names }: SentBetas,
): Record<string, string> {
  const { [betaHeader]: sent, [versionHeader]: version, ...others } = { ...forwarded, ...channel.headers };
  const betas = host.knownBetas === null ? sent : names.join(",") || undefined;
  return {
    "content-type": "application/json",
    accept: stream ? "text/event-stream" : "application/json",
    ...others,
    ...(host.version.place === "header" ? { [versionHeader]: version ?? host.version.value } : undefined),
    ...(host.betas === "header" && betas !== undefined ? { [betaHeader]: betas } : undefined),
  };
}

function expected(stream: boolean, tools: readonly Tool[] | null, host: AnthropicHost): EncodedRequest["answer"] {
  return stream ? new StreamedMessage(tools, host) : { kind: "whole", read: (body) => readMessage(body, tools) };
}

class StreamedMessage implements ExpectedStream {
  readonly kind = "stream";

  constructor(
    private readonly tools: readonly Tool[] | null,
    private readonly host: AnthropicHost,
  ) {}

  reader(): StreamReader {
    return this.host.reader(new MessagesStream(this.tools));
  }

  /** A valid answer that is not streamed is a failure too. */
  instead(body: Uint8Array, { status }: UpstreamHead): WholeAnswer | Failure {
    const whole = readMessage(body, null);
    return isFailure(whole) ? whole : failure("bad_response", "a whole answer came where a stream was asked for", { status });
  }
}

/** The headers about limits begin with the provider's name. */
function explainMessages(refusal: ErrorResponse): Failure {
  return explain({ ...refusal, header: (name) => refusal.header(name) ?? refusal.header(`anthropic-${name}`) });
}

function modelsPath({ baseUrl, modelsPath: path }: Address): string | null {
  return path === null ? null : `${withoutVersion(baseUrl, path)}?limit=${listedMax}`;
}

/** The most that the API lists at once. */
const listedMax = 1000;

function readModels(body: string): readonly string[] | null {
  const models = pageOf(body)?.data;
  if (!Array.isArray(models)) return null;
  return (models as ({ id?: unknown } | null)[]).flatMap((model) => (typeof model?.id === "string" && model.id !== "" ? [model.id] : []));
}

function nextModels(body: string): string | null {
  const page = pageOf(body);
  return page?.has_more === true && typeof page.last_id === "string" && page.last_id !== ""
    ? `&after_id=${encodeURIComponent(page.last_id)}`
    : null;
}

interface ModelsPage {
  readonly data?: unknown;
  readonly has_more?: unknown;
  readonly last_id?: unknown;
}

function pageOf(body: string): ModelsPage | null {
  try {
    return JSON.parse(body) as ModelsPage | null;
  } catch {
    return null;
  }
}
