import { signal } from "@preact/signals";

/** Who is signed in; null: nobody; `unknown` until the first answer. */
export interface SignedIn {
  readonly name: string;
  readonly role: "admin" | "viewer" | "group_admin";
  /** The group that a group admin manages, by id. */
  readonly group?: string | null;
  readonly csrf_token: string | null;
}

export const signedIn = signal<SignedIn | null | "unknown">("unknown");

export function mayChange(): boolean {
  return roleNow() === "admin";
}

/** The admin of a group manages its keys. */
export function mayManageKeys(): boolean {
  const role = roleNow();
  return role === "admin" || role === "group_admin";
}

/** Whose own group it is, those above it manage it. */
export function ownGroup(): string | null {
  const { value } = signedIn;
  return value === null || value === "unknown" ? null : (value.group ?? null);
}

export function roleNow(): SignedIn["role"] | null {
  const { value } = signedIn;
  return value === null || value === "unknown" ? null : value.role;
}

/** What the admin API refused, in its own words, which say how to fix it. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** The field that it is about. */
    readonly param: string | null,
    readonly requestId: string | null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export type ApiMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface ApiRequest {
  readonly method?: ApiMethod;
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string | number | null | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

const api = "/admin/api";

/** The address of a request, without what is not set. */
export function apiUrl(path: string, query: ApiRequest["query"] = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value != null && value !== "") search.set(name, String(value));
  const text = search.toString();
  return `${api}${path}${text === "" ? "" : `?${text}`}`;
}

/** Asks the admin API. Every change carries the CSRF token of the session. */
export async function ask<Answer>(path: string, request: ApiRequest = {}): Promise<Answer> {
  const response = await send(path, request);
  return (await response.json()) as Answer;
}

/** The same for an answer that is read as it comes. */
export async function send(path: string, { method = "GET", body, query, headers, signal }: ApiRequest): Promise<Response> {
  const who = signedIn.value;
  const csrf = who === null || who === "unknown" ? null : who.csrf_token;
  let response: Response;
  try {
    response = await fetch(apiUrl(path, query), {
      method,
      credentials: "same-origin",
      headers: {
        ...(method === "GET" ? {} : { "content-type": "application/json" }),
        ...(method === "GET" || csrf === null ? {} : { "x-csrf-token": csrf }),
        ...headers,
      },
      ...(method === "GET" ? {} : { body: JSON.stringify(body ?? {}) }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    throw new ApiError(0, "unreachable", "The gateway cannot be reached. Is it still running?", null, null);
  }
  if (response.ok) return response;
  const refused = await refusalOf(response);
  // The data plane refuses a client key, which says nothing of the session.
  const isRelayed = response.headers.has("x-sluice-request");
  const isEntering = refused.code === "invalid_login" || refused.code === "invalid_bootstrap_token";
  if (response.status === 401 && !isRelayed && !isEntering) signedIn.value = null;
  throw refused;
}

async function refusalOf(response: Response): Promise<ApiError> {
  const found: unknown = await response.json().catch(() => null);
  const error = (found as { readonly error?: Readonly<Record<string, unknown>> } | null)?.error;
  const text = (name: string): string | null => (typeof error?.[name] === "string" ? error[name] : null);
  return new ApiError(
    response.status,
    text("code") ?? "unknown",
    text("message") ?? `The gateway answered with status ${response.status}.`,
    text("param"),
    text("request_id"),
  );
}

/** Whether this browser has signed in before. Without it nobody is asked for: the refusal would be an error in the browser's log. */
const hintKey = "sluice.signed-in";

function isHinted(): boolean {
  try {
    return localStorage.getItem(hintKey) !== null;
  } catch {
    return true;
  }
}

export function hintSession(is: boolean): void {
  try {
    if (is) localStorage.setItem(hintKey, "yes");
    else localStorage.removeItem(hintKey);
  } catch {
    // Without storage, every start asks.
  }
}

/** Asks who is signed in. */
export async function findSession(): Promise<void> {
  if (!isHinted()) {
    signedIn.value = null;
    return;
  }
  try {
    signedIn.value = await ask<SignedIn>("/me");
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) hintSession(false);
    else throw error;
  }
}
