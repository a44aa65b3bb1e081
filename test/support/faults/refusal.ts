import { jsonType } from "../chaos/answer.ts";
import type { Exchange } from "../chaos/exchange.ts";
import { header } from "../chaos/request.ts";
import { headersFrom, numberFrom, type Faults } from "./fault.ts";

/** The upstream answers with a status, and means it. */
export const refusalFaults: Faults = {
  /** `code` or `code,header=value;header=value` */
  async status(exchange, argument) {
    const [code = "", ...headers] = argument.split(",");
    await refuse(exchange, numberFrom(code, 500), {}, headersFrom(headers.join(",")));
  },
  /** Its first so many attempts are refused with 503; from then on it is well. */
  async recovering(exchange, argument) {
    const ordinal = Number(exchange.attempt.id.slice(exchange.instance.length));
    if (ordinal <= numberFrom(argument, 10)) await refuse(exchange, 503);
  },
  async "status-empty"(exchange, argument) {
    await exchange.reply({ status: numberFrom(argument, 500), contentType: null, body: "" });
  },
  async "status-html"(exchange, argument) {
    const status = numberFrom(argument, 502);
    const body = `<html><head><title>${status}</title></head><body><h1>${status}</h1></body></html>`;
    await exchange.reply({ status, contentType: "text/html", body });
  },
  /** What nginx says to plain HTTP where it expects TLS. */
  async misdirected(exchange) {
    const said = "400 The plain HTTP request was sent to HTTPS port";
    await exchange.reply({
      status: 400,
      contentType: "text/html",
      body: `<html><head><title>${said}</title></head><body><h1>400 Bad Request</h1></body></html>`,
    });
  },
  /** `status,url` */
  async redirect(exchange, argument) {
    const comma = argument.indexOf(",");
    const headers = [["Location", argument.slice(comma + 1)]] as const;
    const status = numberFrom(argument.slice(0, Math.max(comma, 0)), 302);
    await exchange.reply({ status, headers, contentType: null, body: "" });
  },

  /** `header=value;header=value` on a 429. */
  async "rate-limit"(exchange, argument) {
    await refuse(exchange, 429, {}, headersFrom(argument));
  },
  async "retry-after-ms"(exchange, argument) {
    await refuse(exchange, 429, {}, [["retry-after-ms", argument === "" ? "200" : argument]]);
  },
  async "insufficient-quota"(exchange) {
    await refuse(exchange, 429, {
      message: "You exceeded your current quota, please check your plan and billing details.",
      type: "insufficient_quota",
      code: "insufficient_quota",
    });
  },

  /** A conversation must end with the user's turn. */
  async "refuse-prefill"(exchange) {
    if (exchange.ask.prefix === null) return;
    await refuse(exchange, 400, {
      message: "This model does not support assistant message prefill. The conversation must end with a user message.",
      param: "messages",
    });
  },
  async "context-length"(exchange) {
    await refuse(exchange, 400, {
      message: "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
      param: "messages",
      code: "context_length_exceeded",
    });
  },
  /** A proxy in front of the upstream takes no body of this size: its page, and it hangs up. */
  async "too-large-html"(exchange) {
    const title = "413 Request Entity Too Large";
    const body = `<html>\r\n<head><title>${title}</title></head>\r\n<body>\r\n<center><h1>${title}</h1></center>\r\n</body>\r\n</html>\r\n`;
    await exchange.reply({ status: 413, headers: [["Connection", "close"]], contentType: "text/html", body });
  },
  async "content-policy"(exchange) {
    await refuse(exchange, 400, {
      message: "Your request was rejected by the safety system.",
      code: "content_policy_violation",
    });
  },
  /** A wrong key, reported as 400 and with `error` as a bare string. */
  async "bad-key-400"(exchange) {
    const body = { code: "invalid-argument", error: "Incorrect API key provided: xa***99." };
    await exchange.reply({ status: 400, contentType: jsonType, body: JSON.stringify(body) });
  },
  /** Repeats the credential it was given in the text of the refusal. */
  async "leak-key"(exchange, argument) {
    const key = header(exchange.request, "authorization") ?? "none";
    await refuse(exchange, numberFrom(argument, 401), {
      message: `Incorrect API key provided: ${key.replace(/^Bearer /, "")}.`,
    });
  },

  /** Refuses the request in the words of its last message: `status`, or `status,code`. */
  async quoting(exchange, argument) {
    const [status = "", code = ""] = argument.split(",");
    const messages = exchange.ask.fields["messages"] as readonly { readonly content?: unknown }[] | undefined;
    const said = messages?.at(-1)?.content;
    const quoted = typeof said === "string" ? said : JSON.stringify(said);
    await refuse(exchange, numberFrom(status, 400), { message: `Cannot use this: ${quoted}`, code: code === "" ? null : code });
  },
  /** Repeats what it was opened with, in a form of its own: `raw`, `base64`, `basic`, `url` or `json`; with `,header` that header's value. */
  async "leak-form"(exchange, argument) {
    const [form = "raw", name = "authorization"] = argument.split(",");
    const value = (header(exchange.request, name) ?? "none").replace(/^Bearer /, "");
    const written = leakForms[form]?.(value) ?? value;
    await refuse(exchange, 400, { message: `The request with ${written} was refused.` });
  },

  /** Refuses only what is too much; anything else is answered well. */
  async "max-tokens-too-large"(exchange, argument) {
    const most = numberFrom(argument, 4_096);
    const asked = exchange.ask.maxTokens;
    if (asked === null || asked <= most) return;
    await refuse(exchange, 400, {
      message: `max_tokens is too large: ${asked}. This model supports at most ${most} completion tokens, whereas you provided ${asked}.`,
      param: "max_tokens",
      code: "invalid_value",
    });
  },
  "reject-stream-options": (exchange) => refuseParameter(exchange, "stream_options"),
  /** Refuses a request that has the named field. */
  "unsupported-parameter": refuseParameter,
};

const leakForms: Readonly<Record<string, (value: string) => string>> = {
  base64: (value) => Buffer.from(value).toString("base64"),
  basic: (value) => Buffer.from(`user:${value}:x`).toString("base64"),
  url: encodeURIComponent,
  json: (value) => JSON.stringify(value),
};

async function refuseParameter(exchange: Exchange, parameter: string): Promise<void> {
  if (!(parameter in exchange.ask.fields)) return;
  await refuse(exchange, 400, {
    message: `Unsupported parameter: '${parameter}' is not supported with this model.`,
    param: parameter,
    code: "unsupported_parameter",
  });
}

export async function refuse(
  exchange: Exchange,
  status: number,
  particulars: Partial<ErrorBody> = {},
  headers: readonly (readonly [string, string])[] = [],
): Promise<void> {
  const error: ErrorBody = { ...typicalError(status), ...particulars };
  await exchange.reply({
    status,
    headers,
    contentType: jsonType,
    body: JSON.stringify({ error }),
  });
}

interface ErrorBody {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
}

function typicalError(status: number): ErrorBody {
  const [message, type, code] = typical[status] ?? otherwise(status);
  return { message, type, param: null, code };
}

function otherwise(status: number): [string, string, string | null] {
  if (status >= 500) return ["The server had an error.", "server_error", null];
  return ["The request was not accepted.", "invalid_request_error", null];
}

const typical: Readonly<Record<number, [message: string, type: string, code: string | null]>> = {
  401: ["Incorrect API key provided: sk-****wxyz.", "invalid_request_error", "invalid_api_key"],
  402: ["Insufficient balance.", "billing_error", "insufficient_balance"],
  403: ["Your account may not use this.", "permission_error", "account_deactivated"],
  404: ["The model does not exist.", "invalid_request_error", "model_not_found"],
  408: ["The request timed out.", "timeout_error", null],
  413: ["The request is too large.", "invalid_request_error", "request_too_large"],
  429: ["Rate limit reached for requests.", "requests", "rate_limit_exceeded"],
  503: ["The engine is overloaded.", "service_unavailable_error", "server_is_overloaded"],
  529: ["Overloaded.", "overloaded_error", null],
};
