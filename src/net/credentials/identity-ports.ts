import { failure, type Failure } from "../../operations/failure.ts";
import type { AccessToken, TokenRequest } from "./token-request.ts";

/** What finding out the identity of this machine takes. Tests provide their own. */
export interface IdentityPorts extends MachineFacts {
  /** Asks a token service. Never throws. */
  readonly ask: (request: TokenRequest) => Promise<TokenAnswer | Failure>;
  readonly wallMs: () => number;
}

export interface MachineFacts {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The text of a small file; null if it cannot be read. */
  readonly readFile: (path: string) => Promise<string | null>;
}

export interface TokenAnswer {
  readonly status: number;
  readonly body: string;
}

/** The value of a variable; null if it is not set, or empty. */
export function variable({ env }: Pick<MachineFacts, "env">, name: string): string | null {
  const value = env[name]?.trim();
  return value === undefined || value === "" ? null : value;
}

/** The text of a file that holds one token. */
export async function tokenIn({ readFile }: MachineFacts, path: string): Promise<string | Failure> {
  const text = (await readFile(path))?.trim() ?? "";
  return /^[\x21-\x7e]+$/.test(text) ? text : unusable("the file with the token of this machine cannot be read");
}

/** Charged to the credential. The texts of token services are not repeated, because they may repeat what was sent. */
export function refusedBy(service: string, status: number, code: unknown = null): Failure {
  const shown = typeof code === "string" && /^[\w.-]{1,64}$/.test(code) ? `: ${code}` : "";
  const kind = status === 429 || status >= 500 ? "overloaded" : "unauthorized";
  return failure(kind, `${service} answered ${status}${shown}`, { scope: "credential", status });
}

export function unusable(detail: string): Failure {
  return failure("misconfigured", detail, { scope: "credential" });
}

export function unreadableToken(service: string): Failure {
  return failure("bad_response", `${service} answered without usable credentials`, { scope: "credential" });
}

/** A value and until when it is valid; null if that is in the past or not known. */
export function expiring(value: string, expiresMs: number, wallMs: number): AccessToken | null {
  const lifetimeMs = expiresMs - wallMs;
  return lifetimeMs > 0 ? { value, lifetimeMs: Math.min(lifetimeMs, lifetimeMaxMs) } : null;
}

const lifetimeMaxMs = 86_400_000;
