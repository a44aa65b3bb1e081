import {
  betasParam,
  effortParam,
  failure,
  signedParam,
  type Failure,
  type FailureKind,
  type FailureScope,
} from "../../operations/failure.ts";
import type { ErrorResponse } from "../dialect.ts";
import { errorBody, errorIn, presentable, withoutEcho, type ErrorBody } from "./error-body.ts";
import { retryAfterMs, waitInWords, waitMaxMs } from "./retry-after.ts";

/**
 * Classifies an error response: by its codes, then by its message, then by its status, because many upstreams report a bad key or an
 * empty account with the same 400 as a mistake of the client.
 *
 * Without `wallNowMs`, a date in the response is only compared with the response's own `Date`.
 */
export function explain(refusal: ErrorResponse, wallNowMs: number = Number.NaN): Failure {
  const body = errorBody(refusal.body);
  return failureFrom({
    ...evidence(body),
    status: refusal.status,
    isInBand: false,
    retryAfterMs: retryAfterMs(refusal.header, body, wallNowMs),
    statedWaitMs: retryAfterMs(refusal.header, { ...body, message: "" }, wallNowMs),
  });
}

/**
 * The same for an error inside a successful response: the top-level `error` of a JSON body or of an event. Its type or code is used
 * instead of the status.
 */
export function explainInBand(error: unknown): Failure {
  const body = errorIn(error) ?? errorBody("");
  return failureFrom({
    ...evidence(body),
    status: statedStatus(body),
    isInBand: true,
    retryAfterMs: retryAfterMs(() => null, body, Number.NaN),
    statedWaitMs: retryAfterMs(() => null, { ...body, message: "" }, Number.NaN),
  });
}

interface Evidence {
  readonly body: ErrorBody;
  /** Null if an error in-band states none. */
  readonly status: number | null;
  readonly isInBand: boolean;
  readonly retryAfterMs: number | null;
  /** The same without what the message says. */
  readonly statedWaitMs: number | null;
  /** Every code, type, status and reason of the body, in one spelling. */
  readonly codes: ReadonlySet<string>;
  /** The message in lower case. Empty for a page of markup. */
  readonly text: string;
  /** The same without quotations, and empty if the error is about a parameter of the request. */
  readonly ownText: string;
}

interface Explanation {
  readonly kind: FailureKind;
  readonly scope?: FailureScope;
  readonly param?: string | null;
  readonly ceiling?: number;
  /** The part of the upstream's text that it is based on. */
  readonly basis?: string | null;
}

function failureFrom(seen: Evidence): Failure {
  const explanation =
    firstMatch(codeRules, seen) ??
    firstMatch(requestRules, seen) ??
    ceilingExplanation(seen) ??
    firstMatch(channelRules, seen) ??
    firstMatch(refusalRules, seen) ??
    statusExplanation(seen);
  const { kind, ceiling, scope = null, basis = null } = explanation;
  const sentence = presentable(seen.body.message, summaryMaxChars);
  const plain = failure(kind, sentence === "" ? `${label(seen)}: no message (${seen.body.form})` : label(seen), {
    status: seen.status,
    upstreamWords: sentence === "" && basis === null ? null : { sentence, basis, wait: null },
    ...(scope !== null && { scope }),
    ...(ceiling !== undefined && { ceiling }),
  });
  if (plain.blame === "client") return { ...plain, ...clientFacts(plain, explanation, seen) };
  // A failure of a single request causes no cool-down.
  if (plain.scope === "request") return plain;
  const waits = waitMs(kind, seen);
  const otherwiseMs = waitMs(kind, { ...seen, text: "", retryAfterMs: seen.statedWaitMs });
  if (waits === otherwiseMs) return { ...plain, retryAfterMs: waits };
  const words = [...(waitInWords(seen.body.message)?.words ?? []), perDay];
  return { ...plain, retryAfterMs: waits, upstreamWords: { sentence, basis, wait: { words, otherwiseMs } } };
}

const perDay = "per day";

/** Clients see the upstream's text only for their own mistakes, because they need it to fix them. */
function clientFacts(plain: Failure, explanation: Explanation, { body }: Evidence): Partial<Failure> {
  const message = body.form === "markup" ? "" : presentable(body.message, messageMaxChars);
  const type = identifier(body.type);
  const code = identifier(body.code);
  const param = identifier(explanation.param ?? body.param);
  if (plain.kind === "context_length") {
    // A widely used client recognises an overflow by this text alone.
    const isRecognisable = message === "" || /context_length_exceeded|maximum context length/.test(message);
    const publicMessage = isRecognisable ? message : `${presentable(message, messageMaxChars - 26)} (context_length_exceeded)`;
    return { publicMessage: publicMessage || plain.publicMessage, type, code: "context_length_exceeded", param };
  }
  return { publicMessage: message || plain.publicMessage, type, code, param };
}

function waitMs(kind: FailureKind, { body, text, retryAfterMs }: Evidence): number | null {
  if (kind !== "rate_limited") return retryAfterMs;
  // With a daily quota, a delay of seconds is about another limit, and would cause requests all day.
  if (body.details.quotas.some((quota) => quota.includes("PerDay"))) return waitMaxMs;
  return retryAfterMs ?? (text.includes(perDay) ? waitMaxMs : null);
}

const messageMaxChars = 1000;
const summaryMaxChars = 300;
const evidenceMaxChars = 4096;

/** For the log: what cannot be an echo of the request. The upstream's sentence is added once it is known not to repeat the request. */
function label({ body, status, isInBand }: Evidence): string {
  const parts = [isInBand ? "in-band" : null, status, identifier(body.code) ?? identifier(body.type)];
  return parts.filter((each) => each !== null && each !== "").join(" ");
}

/** A type, code or parameter that is safe to show; null for anything else, and for a bare status. */
function identifier(text: string | null): string | null {
  if (text === null || !/^[\w.[\]/:-]{1,100}$/.test(text) || /^\d+$/.test(text)) return null;
  return presentable(text, 100) === text ? text : null;
}

function evidence(body: ErrorBody): Pick<Evidence, "body" | "codes" | "text" | "ownText"> {
  const { type, code, status, details, param } = body;
  const codes = [code, type, status, ...details.reasons].filter((each) => each !== null).map(spelled);
  const sentence = param !== null && param.includes(" ") ? `${body.message} ${param}` : body.message;
  const text = body.form === "markup" ? "" : withoutEcho(sentence.slice(0, evidenceMaxChars)).toLowerCase();
  const isAboutParameter = param !== null && param !== "model" && !param.includes(" ");
  return { body, codes: new Set(codes), text, ownText: isAboutParameter ? "" : withoutQuotes(text) };
}

/** `RateLimitReached`, `rate-limit-reached` and `RATE_LIMIT_REACHED` are one code. */
function spelled(code: string): string {
  return code
    .slice(0, 100)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "");
}

/**
 * Removes everything between the first opening quote and the last closing one. Upstreams quote what the client sent, and a client must
 * not be able to cool a channel down by having `credit balance is too low` quoted.
 */
function withoutQuotes(text: string): string {
  const open = /(?<!\w)["'`]/.exec(text);
  if (open === null) return text;
  const close = text.lastIndexOf(open[0]);
  return close === open.index ? text : `${text.slice(0, open.index)} ${text.slice(close + 1)}`;
}

/** A rule matches if all of its conditions do. The first matching rule decides. */
interface Rule extends Explanation {
  /** Any of these codes, in any spelling; `*` stands for any beginning. */
  readonly codes?: readonly string[];
  /** Any of these phrases, in lower case; a list is a phrase in several parts. */
  readonly says?: readonly Phrase[];
  /** The same without quotations. Required if the failure is charged to anything but the request. */
  readonly saysItself?: readonly Phrase[];
  readonly unless?: readonly Phrase[];
  readonly statuses?: readonly number[];
  readonly givesNoWait?: true;
}

type Phrase = string | readonly string[];

function firstMatch(rules: readonly Rule[], seen: Evidence): Explanation | null {
  const rule = rules.find((each) => holds(each, seen));
  if (rule === undefined) return null;
  const { kind, scope } = rule;
  const param = rule.param ?? (kind === "unsupported" ? unsupportedParam(seen) : null);
  const basis = (kind === "unsupported" && rule.param === undefined ? param?.toLowerCase() : null) ?? basisOf(rule, seen);
  return { kind, param, basis, ...(scope !== undefined && { scope }) };
}

/** The phrase that made a rule match; of several parts the longest, because the others are common words. */
function basisOf({ says, saysItself }: Rule, { text, ownText }: Evidence): string | null {
  const phrase = saysItself?.find((each) => includesAny(ownText, [each])) ?? says?.find((each) => includesAny(text, [each]));
  if (phrase === undefined || typeof phrase === "string") return phrase ?? null;
  return phrase.reduce((longest, piece) => (piece.length > longest.length ? piece : longest), "");
}

function holds({ codes, says, saysItself, unless, statuses, givesNoWait }: Rule, seen: Evidence): boolean {
  return (
    (statuses === undefined || statuses.includes(seen.status ?? 400)) &&
    (givesNoWait === undefined || seen.retryAfterMs === null) &&
    (codes === undefined || codes.some((code) => hasCode(seen.codes, code))) &&
    (says === undefined || includesAny(seen.text, says)) &&
    (saysItself === undefined || includesAny(seen.ownText, saysItself)) &&
    (unless === undefined || !includesAny(seen.text, unless))
  );
}

function hasCode(codes: ReadonlySet<string>, wanted: string): boolean {
  const code = spelled(wanted);
  return wanted.startsWith("*") ? [...codes].some((each) => each.endsWith(code)) : codes.has(code);
}

function includesAny(text: string, phrases: readonly Phrase[]): boolean {
  return phrases.some((phrase) => (typeof phrase === "string" ? text.includes(phrase) : phrase.every((piece) => text.includes(piece))));
}

const rateCodes = [
  "rate_limit_error",
  "rate_limit_exceeded",
  "rate_limit_reached",
  "rate_limited",
  "resource_exhausted",
  "too_many_requests",
  "too_many_concurrent_requests",
  "throttling",
  "throttling_exception",
  "service_quota_exceeded_exception",
  "model_not_ready_exception",
];

/** A parameter that is refused only in a combination is supported in general. */
const conditions: readonly Phrase[] = ["only allowed when", "only be used when", "only supported when", "unless stream"];

const badRequest = [400, 422];

/** Codes mean the same whatever the status they come with. */
const codeRules: readonly Rule[] = [
  {
    kind: "quota_exhausted",
    codes: [
      "insufficient_quota",
      "quota_exceeded",
      "credit_balance_exhausted",
      "insufficient_balance",
      "insufficient_credits",
      "insufficient_funds",
      "billing_hard_limit_reached",
      "billing_not_active",
      "billing_error",
      "payment_required",
      "usage_not_included",
      "arrearage",
      "*spend_limit_exceeded",
      "*spend_limit_reached",
      "*usage_limit_exceeded",
      "*usage_limit_reached",
    ],
  },
  { kind: "quota_exhausted", codes: ["failed_precondition"], says: ["billing"] },
  {
    kind: "unauthorized",
    codes: [
      "invalid_api_key",
      "incorrect_api_key",
      "api_key_invalid",
      "api_key_expired",
      "authentication_error",
      "invalid_authentication",
      "invalid_auth",
      "unauthenticated",
      "token_expired",
      "expired_token_exception",
      "unrecognized_client_exception",
      "invalid_signature_exception",
      "incomplete_signature",
      "account_deactivated",
      "unsupported_country_region_territory",
      "failed_precondition",
    ],
  },
  {
    kind: "context_length",
    codes: ["context_length_exceeded", "context_window_exceeded", "*context_window_exceeded", "exceed_context_size_error"],
  },
  {
    kind: "content_policy",
    codes: [
      "content_filter",
      "content_filtered",
      "content_policy_violation",
      "responsible_ai_policy_violation",
      "data_inspection_failed",
      "moderation_blocked",
      "prohibited_content",
      "invalid_prompt",
      "bio_policy",
      "cyber_policy",
      "misalignment_policy_violation",
      "image_content_policy_violation",
    ],
  },
  {
    kind: "model_failed",
    codes: [
      "tool_use_failed",
      "json_validate_failed",
      "output_parse_failed",
      "malformed_tool_use",
      "malformed_function_call",
      "engine_failed",
    ],
  },
  // A request larger than a whole minute's allowance: waiting does not help, and other requests should not have to wait.
  {
    kind: "rate_limited",
    scope: "request",
    statuses: [413, 429],
    says: [
      ["request too large", "tokens per min"],
      ["request too large", "(tpm)"],
    ],
  },
  // A limit of nothing at all: this account may use other models, but never this one.
  { kind: "model_missing", codes: rateCodes, says: ["limit: 0,", "limit: 0\n", "limit: 0."] },
  { kind: "rate_limited", codes: rateCodes },
  {
    kind: "overloaded",
    codes: [
      "overloaded",
      "overloaded_error",
      "model_overloaded",
      "engine_overloaded",
      "engine_overloaded_error",
      "server_is_overloaded",
      "server_overloaded",
      "slow_down",
      "system_busy",
      "capacity_exceeded",
    ],
  },
  // An API that says so itself, and not only by the status, has run out of time for its own work, and may charge for it. A bare 408
  // comes from a server that waited for the request in vain (RFC 9110, 15.5.9).
  { kind: "timed_out", codes: ["model_timeout_exception", "408"] },
  {
    kind: "model_missing",
    codes: [
      "model_not_found",
      "model_not_exist",
      "model_not_available",
      "model_not_active",
      "model_not_supported",
      "model_decommissioned",
      "model_terms_required",
      "model_permission_blocked_org",
      "model_permission_blocked_project",
      "invalid_model",
      "unknown_model",
      "deployment_not_found",
      "resource_not_found_exception",
      "ftu_form_not_filled",
    ],
  },
  {
    kind: "unsupported",
    statuses: badRequest,
    codes: ["unsupported_parameter", "unknown_parameter", "unsupported_value", "extra_forbidden"],
    unless: conditions,
  },
  // Reasoning that another account encrypted: a channel of that account can read it.
  { kind: "unsupported", statuses: badRequest, codes: ["invalid_encrypted_content"] },
  {
    kind: "invalid_request",
    codes: [
      "invalid_image",
      "invalid_image_format",
      "invalid_image_mode",
      "invalid_image_url",
      "invalid_base64_image",
      "image_too_large",
      "image_too_small",
      "image_parse_error",
      "image_file_too_large",
      "image_file_not_found",
      "empty_image_file",
      "failed_to_download_image",
      "unsupported_image_media_type",
    ],
  },
  { kind: "too_large", codes: ["request_too_large", "payload_too_large"] },
];

/** Problems of this request alone: nothing else is charged, so quoted text counts as well. */
const requestRules: readonly Rule[] = [
  {
    kind: "context_length",
    // Some upstreams report an overflow as a denial or as a fault of their own.
    statuses: [...badRequest, 403, 413, 500],
    says: [
      "context_length_exceeded",
      "maximum context length",
      "maximum prompt length",
      "prompt is too long",
      "prompt too long",
      "input is too long",
      "input length too long",
      "too many input tokens",
      "reduce the length of the messages",
      "reduce the length of the input prompt",
      "exceeded model token limit",
      "exceed context limit",
      "exceeds the available context size",
      "range of input length should be",
      ["context length", "exceed"],
      ["context length", "longer than"],
      ["context window", "exceed"],
      ["context window", "too long"],
      ["input token count", "exceed"],
      ["input length", "exceed"],
      ["inputs", "max_new_tokens", "must be <="],
    ],
  },
  // A thought that another account made, or whose conversation was changed since. The upstream may well answer without it.
  {
    kind: "unsupported",
    param: signedParam,
    statuses: badRequest,
    says: [
      ["invalid `signature`", "thinking"],
      ["thinking", "blocks in the latest assistant message cannot be modified"],
    ],
  },
  // Before the rules below, because these sentences repeat a name that the client chose, often without quotes.
  {
    kind: "unsupported",
    statuses: badRequest,
    says: [
      "unknown parameter",
      "unknown name",
      "unknown field",
      "unrecognized request argument",
      "unrecognized field",
      "unrecognized key",
      "unexpected keyword",
      "extra inputs are not permitted",
      "extra fields not permitted",
      "extra parameters",
      "additional properties are not allowed",
      "cannot find field",
    ],
  },
];

const emptyAccount: readonly Phrase[] = [
  "credit balance",
  "insufficient balance",
  "insufficient credit",
  "insufficient funds",
  "insufficient quota",
  "out of credits",
  "used all available credits",
  "exceeded your current quota",
  "spend limit",
  "spending limit",
  "billing hard limit",
  "check your billing",
  "enable billing",
  "account balance is negative",
  "account is not active",
  "account is in good standing",
  ["usage limit", "reached"],
  ["usage limit", "exceeded"],
];

/** Problems of the channel, its account or its model, stated by the upstream itself. */
const channelRules: readonly Rule[] = [
  { kind: "quota_exhausted", statuses: [400, 401, 403, 422], saysItself: emptyAccount },
  // An upstream that says when to retry is limiting the rate, whatever else it says about plans and billing.
  { kind: "quota_exhausted", statuses: [429], saysItself: emptyAccount, givesNoWait: true },
  {
    kind: "unauthorized",
    statuses: [400, 403, 422],
    saysItself: [
      "incorrect api key",
      "invalid api key",
      "invalid api-key",
      "api key not valid",
      "api key is not valid",
      "api key not found",
      "api key expired",
      "api key has expired",
      "api key is invalid",
      "api key provided is invalid",
      "invalid x-api-key",
      "invalid authentication",
      "authentication fail",
      "organization has been disabled",
      "location is not supported",
      "country, region, or territory not supported",
    ],
  },
  {
    kind: "model_missing",
    statuses: badRequest,
    saysItself: [
      "is not a valid model",
      "invalid model",
      "unknown model",
      "model not exist",
      "model not found",
      "model is not supported",
      "model identifier is invalid",
      "on-demand throughput isn",
      ["model", "does not exist"],
      ["model", "decommissioned"],
    ],
  },
];

/** Requests that the upstream refuses for every client. */
const refusalRules: readonly Rule[] = [
  {
    kind: "content_policy",
    statuses: [...badRequest, 403],
    says: [
      "content policy",
      "content management policy",
      "content filter",
      "content_filter",
      "content moderation",
      "requires moderation",
      "was flagged",
      "been flagged",
      "flagged as",
      "flagged by",
      "flagged for",
      "safety system",
      "safety reasons",
      "safety filter",
      "usage policy",
      "usage policies",
      "prohibited content",
      "inappropriate content",
    ],
  },
  {
    kind: "model_failed",
    statuses: badRequest,
    says: ["failed to call a function", "failed to generate json", "failed to validate json"],
  },
  { kind: "unsupported", statuses: [404], says: ["no endpoints found that support"] },
  { kind: "unsupported", param: betasParam, statuses: badRequest, says: ["invalid beta flag", ["unexpected value(s)", "beta"]] },
  // Sentences about this field that do not spell its name, or do not say that it is not supported.
  {
    kind: "unsupported",
    param: effortParam,
    statuses: badRequest,
    says: ["does not support thinking", "does not support reasoning", "reasoningeffort", [effortParam, "input should be"]],
  },
  {
    kind: "unsupported",
    statuses: badRequest,
    says: [
      "unsupported parameter",
      "unsupported value",
      "unsupported role",
      "unsupported message role",
      "unsupported content",
      "does not support",
      "do not support",
      "doesn't support",
      "not supported",
      "is unsupported",
      "is not a multimodal model",
      "tool choice requires",
      "only the default",
    ],
    unless: conditions,
  },
];

/** Parameters that are recognised in a message without a `param`. */
const parameters = [
  "parallel_tool_calls",
  "tool_choice",
  "response_format",
  "json_schema",
  effortParam,
  "max_completion_tokens",
  "max_tokens",
  "top_logprobs",
  "logprobs",
  "logit_bias",
  "frequency_penalty",
  "presence_penalty",
  "temperature",
  "top_p",
  "service_tier",
  "prompt_cache_key",
  "safety_identifier",
  "verbosity",
  "image_url",
  "input_audio",
  "tools",
  "seed",
];

/**
 * `stream_options` is recognised with most care: the gateway adds it by itself, and learns here where not to. A problem inside it
 * (`stream_options.other`) is the client's own.
 */
function unsupportedParam({ body, text }: Evidence): string | null {
  const { param } = body;
  if (param !== null && !param.includes(" ")) return param === "stream_options.include_usage" ? "stream_options" : param;
  if (/(?<![\w.])stream_options(?:\.include_usage)?(?!\w|[.[]\w|', ')/.test(text)) return "stream_options";
  return parameters.find((name) => text.includes(name)) ?? null;
}

/** The names that upstreams have for the limit on output tokens. */
const outputTokens = /max_(?:completion_|output_|new_)?tokens|max(?:output)?tokens|max(?:imum)? tokens|(?:completion|output) tokens/;

/** The forms in which upstreams state the largest allowed number. The first that matches counts. */
const ceilings: readonly { readonly form: RegExp; readonly isExclusive?: true }[] = [
  { form: /\bat most ["'`]?(\d[\d,]{0,12})/ },
  { form: /(?:less than or equal to|lower than or equal to|<=|≤) ?["'`]?(\d[\d,]{0,12})/ },
  { form: / to (\d[\d,]{0,12}) \(exclusive\)/, isExclusive: true },
  { form: /\brange\b[^[(]{0,60}[[(]\d{1,3}, ?(\d{1,12})[\])]/ },
  { form: /\bbetween \d{1,3} and (\d[\d,]{0,12})/ },
  { form: / > (\d[\d,]{0,12}),? which is the maximum/ },
  { form: /\b(?:maximum|limit|max)\b[^.\d]{0,80}? (?:is|of|to|value) ["'`]?(\d[\d,]{0,12})/ },
  { form: /\b(?:maximum|limit|max)(?: allowed| value)?(?::| =|=)? ?["'`(]?(\d[\d,]{0,12})/ },
  { form: /\b(?:not|cannot|can't) (?:exceed|be greater than|be larger than|be more than) ["'`]?(\d[\d,]{0,12})/ },
  { form: /\b(?:exceeds|exceeded|no more than|up to) ["'`]?(\d[\d,]{0,12})/ },
  { form: /\b(?:less|lower|smaller) than ["'`]?(\d[\d,]{0,12})/, isExclusive: true },
];

/**
 * A request for more output tokens than the model allows, with the number that it allows. The number is learned for all users of the
 * deployment, so it must certainly be about output tokens: in a list of problems, each is read alone.
 */
function ceilingExplanation({ status, body, text }: Evidence): Explanation | null {
  if (![...badRequest, 416].includes(status ?? 400)) return null;
  const param = body.param?.toLowerCase() ?? null;
  const isNamed = param !== null && outputTokens.test(param);
  if (param !== null && !isNamed) return null;
  if (!isNamed && /invalid value(?::| at)/.test(text)) return null;
  for (const complaint of text.split(/[;\n]/)) {
    const most = isNamed || outputTokens.test(complaint) ? allowedAtMost(complaint) : null;
    if (most !== null) return { kind: "ceiling", ...most, param: clientsName(`${param ?? ""} ${complaint}`) };
  }
  return null;
}

function allowedAtMost(text: string): { readonly ceiling: number; readonly basis: string } | null {
  for (const { form, isExclusive } of ceilings) {
    const figure = Number(form.exec(text)?.[1]?.replaceAll(",", "") ?? Number.NaN);
    const ceiling = figure - (isExclusive ? 1 : 0);
    if (Number.isSafeInteger(ceiling) && ceiling >= 1) return { ceiling, basis: String(figure) };
  }
  return null;
}

function clientsName(text: string): string {
  const older = text.indexOf("max_tokens");
  const newer = text.indexOf("max_completion_tokens");
  return newer !== -1 && (older === -1 || newer < older) ? "max_completion_tokens" : "max_tokens";
}

/** What a status means by itself. */
function statusExplanation(seen: Evidence): Explanation {
  const explanation = explanationOfStatus(seen);
  // Upstreams report a client's mistakes as JSON. A page of markup comes from a proxy, and no client can fix that.
  return explanation.kind === "invalid_request" && seen.body.form === "markup" ? { kind: "bad_response" } : explanation;
}

function explanationOfStatus(seen: Evidence): Explanation {
  const { status } = seen;
  if (status === null) return { kind: "bad_response" };
  if (status === 403) return denied(seen);
  if (status === 404 || status === 410) return notFound(seen);
  if (status === 409) return { kind: isPassing(seen) ? "overloaded" : "invalid_request" };
  if (isMisdirected(seen)) return { kind: "misconfigured" };
  return { kind: statusKinds[status] ?? statusClasses[Math.floor(status / 100)] ?? "bad_response" };
}

/** The address of the channel is wrong: for example plain HTTP was sent to a port that expects TLS. */
function isMisdirected({ status, body }: Evidence): boolean {
  if (status !== 400 || (body.form !== "markup" && body.form !== "text")) return false;
  return includesAny(body.message.slice(0, pageOpeningChars).toLowerCase(), wrongPort);
}

/** A page states the problem at its top; further down it may repeat what a client sent. */
const pageOpeningChars = 300;
const wrongPort: readonly Phrase[] = [
  "plain http request was sent to https port",
  "speaking plain http to an ssl-enabled server port",
  "http request to an https server",
];

const statusKinds: Readonly<Record<number, FailureKind>> = {
  101: "redirected",
  401: "unauthorized",
  402: "quota_exhausted",
  405: "misconfigured",
  406: "misconfigured",
  407: "misconfigured",
  408: "overloaded",
  413: "too_large",
  415: "misconfigured",
  421: "misconfigured",
  424: "overloaded",
  425: "overloaded",
  426: "misconfigured",
  429: "rate_limited",
  451: "content_policy",
  498: "overloaded",
  501: "model_missing",
  // A proxy in front of the upstream timed out, and the upstream may still be working.
  504: "timed_out",
  524: "timed_out",
};

const statusClasses: Readonly<Record<number, FailureKind>> = {
  1: "bad_response",
  2: "bad_response",
  3: "redirected",
  4: "invalid_request",
  5: "overloaded",
};

function denied({ body, text }: Evidence): Explanation {
  // A firewall in front of the upstream refuses single requests: that must not cool the credential down.
  if (body.form === "markup" || (body.form === "text" && /^error code: \d{3,4}$/.test(text.trim()))) {
    return { kind: "misconfigured", scope: "request" };
  }
  return { kind: includesAny(text, ["model", "deployment"]) ? "model_missing" : "unauthorized" };
}

/** The model, something that the client referred to, or the configured path does not exist. */
function notFound({ body, isInBand, text, ownText }: Evidence): Explanation {
  if (isInBand) return { kind: "model_missing" };
  if (body.form === "markup" || body.form === "empty") return { kind: "misconfigured" };
  // Some servers answer like this for an unknown path.
  if (/^file not found(?: \(.*\))?$/.test(ownText.trim())) return { kind: "misconfigured", scope: "deployment" };
  // A client can name any file, so this must not be charged to a host.
  const isReference = includesAny(text, ["no such file", "file not found", "no file found", "audio with id", "previous_response"]);
  if (isReference || (body.param !== null && body.param !== "model")) return { kind: "invalid_request" };
  const isPath = includesAny(ownText, ["url", "cannot post", "cannot get", "route", "page not found"]);
  const isModel = includesAny(text, ["model", "deployment", "engine", "no endpoints found"]);
  return { kind: isModel && !isPath ? "model_missing" : "misconfigured" };
}

function isPassing({ codes, text }: Evidence): boolean {
  return includesAny([...codes, text].join(" "), ["lock", "conflict", "retry", "try again"]);
}

/** The status that an in-band error stands for: a number in it, or the meaning of its code or type. */
function statedStatus(body: ErrorBody): number | null {
  const stated = [body.code, body.status, body.type, ...body.details.reasons].filter((each) => each !== null);
  const numbers = stated.filter((each) => /^[45]\d\d$/.test(each)).map(Number);
  const words = stated.map((each) => wordStatuses.get(spelled(each)));
  return numbers[0] ?? words.find((each) => each !== undefined) ?? null;
}

const statusWords: Readonly<Record<number, readonly string[]>> = {
  400: [
    "invalid_request_error",
    "invalid_request",
    "invalid_argument",
    "invalid_parameter",
    "invalid_value",
    "failed_precondition",
    "bad_request",
    "bad_request_error",
    "validation_exception",
  ],
  401: ["authentication_error", "unauthenticated", "unauthorized", "invalid_api_key"],
  402: ["billing_error", "payment_required", "insufficient_quota"],
  403: ["permission_error", "permission_denied", "forbidden", "access_denied_exception"],
  404: ["not_found_error", "not_found", "model_not_found", "resource_not_found_exception"],
  409: ["conflict_error", "conflict", "aborted"],
  413: ["request_too_large"],
  424: ["model_error_exception", "model_stream_error_exception"],
  429: rateCodes,
  500: [
    "api_error",
    "server_error",
    "internal",
    "internal_error",
    "internal_server_error",
    "internal_server_exception",
    "upstream_error",
    "unknown",
  ],
  503: ["unavailable", "service_unavailable", "service_unavailable_error", "service_unavailable_exception", "cancelled"],
  504: ["timeout", "timeout_error", "vector_store_timeout", "deadline_exceeded", "model_timeout_exception"],
  529: ["overloaded", "overloaded_error", "server_is_overloaded", "slow_down"],
};

const wordStatuses: ReadonlyMap<string, number> = new Map(
  Object.entries(statusWords).flatMap(([status, words]) => words.map((each) => [spelled(each), Number(status)] as const)),
);
