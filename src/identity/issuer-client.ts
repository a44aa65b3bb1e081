/** How a text is fetched: by `makeFetchText` of `net`. */
export type FetchIssuerText = (request: {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  readonly reach: "any" | "public";
  readonly bytesMax: number;
}) => Promise<
  | { readonly ok: true; readonly status: number; readonly contentType: string | null; readonly body: string }
  | { readonly ok: false; readonly problem: string }
>;

/** Why an issuer could not be asked, in words for the operator. */
export class IssuerProblem extends Error {
  override readonly name = "IssuerProblem";
}

/** More than any issuer's documents have: large key sets have a few kilobytes. */
const documentBytesMax = 256 * 1024;

/**
 * Asks one issuer. The issuer itself may be on a private network, because the operator named it. Where its documents lead to another
 * origin, that must be on the public internet unless private addresses are allowed: an issuer must not be able to make the gateway
 * send requests into the operator's network. Only an issuer on this machine may speak plain HTTP.
 */
export class IssuerClient {
  private readonly origin: string;

  constructor(
    readonly issuer: string,
    private readonly allowPrivate: boolean,
    private readonly fetchText: FetchIssuerText,
  ) {
    this.origin = new URL(issuer).origin;
  }

  /** Reads a JSON object. */
  async document(url: string): Promise<Readonly<Record<string, unknown>> | IssuerProblem> {
    const answer = await this.request(url, "GET", { accept: "application/json" }, null);
    if (answer instanceof IssuerProblem) return answer;
    if (answer.status !== 200) return new IssuerProblem(`${url} answered ${answer.status}`);
    const value = parsed(answer.body);
    return isObject(value) ? value : new IssuerProblem(`${url} did not answer with a JSON object`);
  }

  /** For libraries that expect `fetch`. Rejects with an `IssuerProblem`. */
  async fetch(
    url: string,
    options: { readonly method: string; readonly headers: Readonly<Record<string, string>>; readonly body?: unknown },
  ) {
    const { method, headers, body } = options;
    if (method !== "GET" && method !== "POST") throw new IssuerProblem(`the method ${method} is not used`);
    const answer = await this.request(
      url,
      method,
      headers,
      typeof body === "string" || body instanceof URLSearchParams ? body.toString() : null,
    );
    if (answer instanceof IssuerProblem) throw answer;
    const type = answer.contentType;
    // A Response refuses a status below 200, and a body for some others.
    if (answer.status < 200 || [204, 205, 304].includes(answer.status)) throw new IssuerProblem(`${url} answered ${answer.status}`);
    return new Response(answer.body, { status: answer.status, headers: type === null ? {} : { "content-type": type } });
  }

  private async request(url: string, method: "GET" | "POST", headers: Readonly<Record<string, string>>, body: string | null) {
    const reach = this.reachOf(url);
    if (reach === null) return new IssuerProblem(`${url.slice(0, shownMax)} is not an https address`);
    const answer = await this.fetchText({ method, url, headers, body, reach, bytesMax: documentBytesMax });
    return answer.ok ? answer : new IssuerProblem(`${new URL(url).host}: ${answer.problem}`);
  }

  private reachOf(url: string): "any" | "public" | null {
    if (!URL.canParse(url)) return null;
    const { origin, protocol, username, password } = new URL(url);
    if (username !== "" || password !== "") return null;
    if (origin === this.origin) return "any";
    return protocol === "https:" ? (this.allowPrivate ? "any" : "public") : null;
  }
}

const shownMax = 200;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
