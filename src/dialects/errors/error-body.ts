import type { JsonObject } from "../../operations/json.ts";

/** An error body of an upstream, in any of the usual formats. Its text must pass through `presentable` before it is shown or logged. */
export interface ErrorBody {
  /** Empty if there is none. */
  readonly message: string;
  readonly type: string | null;
  readonly code: string | null;
  /** The parameter the upstream points at. Some upstreams put a whole sentence here. */
  readonly param: string | null;
  /** A status inside the body, as a name or a number. */
  readonly status: string | null;
  readonly details: ErrorDetails;
  /** A page of markup comes from a proxy in front of the upstream, so its text is no evidence. */
  readonly form: "json" | "text" | "markup" | "empty";
}

/** The machine-readable rest of an error: finer codes, a delay, and the names of the quotas that were hit. */
export interface ErrorDetails {
  readonly reasons: readonly string[];
  readonly retryDelay: string | null;
  readonly quotas: readonly string[];
}

/** Never throws, and takes linear time for any text. */
export function errorBody(text: string): ErrorBody {
  const bounded = text.slice(0, textMaxChars).trim();
  if (bounded === "") return { ...nothing, form: "empty" };
  if (isMarkup(bounded)) return { ...nothing, message: cutBetweenTokens(withoutTags(bounded), plainMaxChars), form: "markup" };
  const parsed = parse(bounded) ?? parse(firstEventData(bounded));
  const body = parsed === undefined ? null : errorIn(parsed);
  return body ?? { ...nothing, message: cutBetweenTokens(bounded, plainMaxChars), form: "text" };
}

/** The same for a parsed error: the error itself, or the object that contains it. */
export function errorIn(value: unknown): ErrorBody | null {
  const error = read(value);
  if (error === null) return null;
  // A reseller quotes the error of the provider behind it, which is more specific than its own.
  const quoted = error.quoted === null ? undefined : (parse(error.quoted) ?? error.quoted);
  const inner = quoted === undefined ? null : read(quoted);
  if (inner === null) return error.body;
  return {
    ...error.body,
    message: join([error.body.message, inner.body.message], ": "),
    type: inner.body.type ?? error.body.type,
    code: inner.body.code ?? error.body.code,
    param: inner.body.param ?? error.body.param,
    details: both(error.body.details, inner.body.details),
  };
}

/** Makes the text of an upstream safe to show: short, and without control characters, secrets, account names and echoes of the request. */
export function presentable(text: string, charsMax: number): string {
  const bounded = cutBetweenTokens(text, presentedMaxChars);
  const shown = redacted(withoutEcho(withoutControls(bounded)))
    .replace(/ {2,}/g, " ")
    .trim();
  // Known secrets are removed later, by value. A secret that is cut in half would not be recognised, so this cuts between tokens.
  return cutBetweenTokens(shown, charsMax).toWellFormed();
}

/**
 * Validators quote the input that they reject, which is a prompt. It must not be logged, and must not be taken for the upstream's own
 * text: a client could write "incorrect API key" into a prompt and have a channel cooled down.
 */
export function withoutEcho(text: string): string {
  const at = text.search(/'input':|"input":|\\"input\\":|input_value=/);
  return at === -1 ? text : `${text.slice(0, at)}…`;
}

/** Larger than any real error, and small enough to parse and search quickly. */
const textMaxChars = 64 * 1024;
const plainMaxChars = 500;
/** Several times what is shown, because removing secrets makes a text shorter. */
const presentedMaxChars = 8 * 1024;
/** Real errors nest four or five levels. */
const depthMax = 64;
const itemsMax = 8;

const noDetails: ErrorDetails = { reasons: [], retryDelay: null, quotas: [] };

const nothing: Omit<ErrorBody, "form"> = {
  message: "",
  type: null,
  code: null,
  param: null,
  status: null,
  details: noDetails,
};

/** An error, and the text of another error that it quotes. */
interface ParsedError {
  readonly body: ErrorBody;
  readonly quoted: string | null;
}

function read(value: unknown): ParsedError | null {
  if (typeof value === "string") return { body: { ...nothing, message: value, form: "text" }, quoted: null };
  const root = fields(Array.isArray(value) ? value[0] : value);
  if (root === null) return null;
  const error = fields(root["error"]) ?? fields(list(root["errors"])[0]) ?? root;
  const around = error === root ? null : root;
  const sentence =
    sentenceIn(around === null ? root["error"] : error["message"]) ??
    sentenceIn(root["message"]) ??
    sentenceIn(root["err_msg"]) ??
    sentenceIn(root["msg"]) ??
    sentenceIn(root["detail"]) ??
    blank;
  const detail = fields(root["detail"]);
  return {
    body: {
      message: sentence.message,
      type: word(error["type"]) ?? word(root["__type"]) ?? word(root["category"]) ?? word(detail?.["type"]),
      code:
        word(error["code"]) ??
        word(around?.["code"]) ??
        word(root["err_code"]) ??
        word(root["error_code"]) ??
        word(detail?.["code"]) ??
        sentence.code,
      param: word(error["param"]) ?? word(detail?.["param"]) ?? sentence.param,
      status: word(error["status"]) ?? word(root["statusCode"]) ?? word(detail?.["status"]),
      details: detailsIn(error),
      form: "json",
    },
    quoted: word(fields(error["metadata"])?.["raw"]),
  };
}

interface Sentence {
  readonly message: string;
  readonly code: string | null;
  readonly param: string | null;
}

const blank: Sentence = { message: "", code: null, param: null };

/** A message is a string, an object around one, or a validator's list of `{ loc, msg, type }`. */
function sentenceIn(value: unknown): Sentence | null {
  if (typeof value === "string") return value.trim() === "" ? null : { ...blank, message: value };
  const object = fields(value);
  const direct = word(object?.["message"]) ?? word(object?.["detail"]);
  if (direct !== null) return { ...blank, message: direct };
  const complaints = list(Array.isArray(value) ? value : object?.["detail"]).map(complaint);
  const first = complaints[0];
  return first === undefined
    ? null
    : {
        ...first,
        message: join(
          complaints.map((each) => each.message),
          "; ",
        ),
      };
}

function complaint(value: unknown): Sentence {
  const item = fields(value);
  const path = list(item?.["loc"])
    .map((part) => word(part) ?? "")
    .filter((part) => part !== "");
  const param = (path[0] === "body" ? path.slice(1) : path).join(".");
  const message = word(item?.["msg"]) ?? word(item?.["message"]) ?? word(value) ?? "";
  return { message: join([param, message], ": "), code: word(item?.["type"]), param: param === "" ? null : param };
}

function detailsIn(error: JsonObject): ErrorDetails {
  const details = error["details"];
  const own = [fields(details), fields(error["innererror"])];
  const listed = list(details).map(fields);
  const all = [...own, ...listed].filter((each) => each !== null);
  return {
    reasons: all.flatMap((each) => [each["reason"], each["code"], each["error_code"]].map(word)).filter((each) => each !== null),
    retryDelay: all.map((each) => word(each["retryDelay"])).find((each) => each !== null) ?? null,
    quotas: all
      .flatMap((each) => list(each["violations"]))
      .map((violation) => word(fields(violation)?.["quotaId"]))
      .filter((each) => each !== null),
  };
}

function both(outer: ErrorDetails, inner: ErrorDetails): ErrorDetails {
  return {
    reasons: [...outer.reasons, ...inner.reasons],
    retryDelay: outer.retryDelay ?? inner.retryDelay,
    quotas: [...outer.quotas, ...inner.quotas],
  };
}

function fields(value: unknown): JsonObject | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value.slice(0, itemsMax) : [];
}

/** A non-empty string, or a number as a string: codes are sent as either. */
function word(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value.trim() !== "" ? value : null;
}

function join(parts: readonly string[], separator: string): string {
  return parts.filter((part) => part !== "").join(separator);
}

function parse(text: string | null): unknown {
  if (text === null || text.length > textMaxChars || isDeep(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Counts brackets outside strings, to protect the parser from deep nesting. */
function isDeep(text: string): boolean {
  let depth = 0;
  let quoted = false;
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (quoted) {
      if (character === "\\") index++;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === "{" || character === "[") {
      if (++depth > depthMax) return true;
    } else if (character === "}" || character === "]") depth--;
  }
  return false;
}

/** Some upstreams answer a streamed request with an error status and an event as the body. */
function firstEventData(text: string): string | null {
  const at = text.startsWith("data:") ? 0 : text.indexOf("\ndata:") + 1;
  if (at === 0 && !text.startsWith("data:")) return null;
  const end = text.indexOf("\n", at);
  return text.slice(at + "data:".length, end === -1 ? text.length : end);
}

function isMarkup(text: string): boolean {
  return /^<[a-z!?]/i.test(text);
}

/** Not a regular expression, which would take quadratic time for a page of opening brackets. */
function withoutTags(text: string): string {
  const words: string[] = [];
  let at = 0;
  while (at < text.length) {
    const open = text.indexOf("<", at);
    words.push(text.slice(at, open === -1 ? text.length : open));
    if (open === -1) break;
    const invisible = /^<(script|style)/i.exec(text.slice(open, open + 8))?.[1]?.toLowerCase();
    const from = invisible === undefined ? open : text.indexOf(`</${invisible}`, open);
    const close = from === -1 ? -1 : text.indexOf(">", from);
    if (close === -1) break;
    at = close + 1;
  }
  return words
    .join(" ")
    .replace(/\s{1,1000}/g, " ")
    .trim();
}

/** Never cuts inside a token: half of a secret is too short to be recognised as one. */
function cutBetweenTokens(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  let end = charsMax;
  while (end > 0 && isTokenCode(text.charCodeAt(end - 1))) end--;
  return text.slice(0, end);
}

function isTokenCode(code: number): boolean {
  return code > 0x20 && code < 0x7f && code !== 0x2c && code !== 0x3b && code !== 0x3e;
}

/** Replaces line breaks with spaces, and removes control and format characters, which can forge or hide log lines. */
function withoutControls(text: string): string {
  return text.replace(/[\t\n\v\f\r\u0085\u2028\u2029]/g, " ").replace(/[\p{Cc}\p{Cf}]/gu, "");
}

const mark = "[redacted]";

/** Every quantifier is bounded or not nested, so that this takes linear time. */
function redacted(text: string): string {
  return text
    .replace(/\b(bearer)\s{1,8}\S+/gi, `$1 ${mark}`)
    .replace(/\b((?:api[ _-]?key|secret|password)(?: provided)?["']?\s{0,4}[:=]\s{0,4}["']?)[^\s"',;]+/gi, `$1${mark}`)
    .replace(/(?<![a-z0-9])[sp]k[-_][\w*.-]+/gi, mark)
    .replace(/(?<![a-z0-9])(?:org|proj|acct)[-_](?=[a-z]{0,32}\d|\w{16})[\w-]+/gi, mark)
    .replace(/[^\s@<>()"'`,;:]{1,64}@[^\s@<>()"'`,;:]{1,255}/g, mark)
    .replace(/[A-Za-z0-9+/=_-]{20,}/g, (token) => (isReadable(token) ? token : mark));
}

/**
 * Distinguishes names such as `max_completion_tokens`, `example-chat-20241022` and `ResponsiblePolicyViolation` from keys: names consist
 * of words and short numbers.
 */
function isReadable(token: string): boolean {
  return token.split(/[-_/+=]/).every((part) => {
    if (/^\d+$/.test(part)) return part.length <= 8;
    if (/\d/.test(part)) return part.length <= 4;
    if (/^[A-Z]{0,16}$|^[a-z]{0,16}$/.test(part)) return true;
    const words = part.split(/(?<=[a-z])(?=[A-Z])/);
    return words.every((each) => /^[A-Z]?[a-z]{2,15}$/.test(each)) && part.length >= 4 * words.length;
  });
}
