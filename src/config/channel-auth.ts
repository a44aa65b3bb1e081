import {
  awsKeysOf,
  clientSecretOf,
  externalAccountOf,
  externalAccountText,
  serviceAccountOf,
  serviceAccountText,
  type AuthKind,
  type ChannelAuth,
} from "../channels/channel-auth.ts";
import { cloudAuth, type Preset } from "../dialects/presets.ts";
import { checkAddress } from "./address.ts";
import { problem, type Finding, type Path } from "./findings/problem.ts";
import type { ChannelEntry } from "./schema.ts";

/** How a channel authenticates, where that is not a key in a header, and what is wrong with its settings for that. */
export interface AuthReading {
  readonly auth: ChannelAuth | null;
  readonly findings: readonly Finding[];
}

export function authKindOf(entry: Pick<ChannelEntry, "auth">, preset: Preset | null): AuthKind {
  return entry.auth ?? preset?.auth ?? "key";
}

/** `baseUrl` tells the region where the channel does not. */
export function readAuth(entry: ChannelEntry, kind: AuthKind, baseUrl: string, path: Path): AuthReading {
  const findings: Finding[] = [];
  if (entry.token_url !== undefined && kind !== "google" && kind !== "entra") {
    findings.push(problem([...path, "token_url"], "this channel requests no tokens", "remove this line, or set auth"));
  }
  if (entry.auth_header !== undefined && kind !== "key") {
    findings.push(problem([...path, "auth_header"], "this channel sends no key in a header", "remove this line"));
  }
  const tokenUrl = entry.token_url ?? null;
  if (tokenUrl !== null) {
    const verdict = checkAddress(tokenUrl);
    if (!verdict.ok) findings.push(problem([...path, "token_url"], verdict.reason, verdict.fix));
    else if (!verdict.secure && !verdict.near) {
      findings.push(problem([...path, "token_url"], "credentials would be sent unencrypted over a public network", "use https"));
    }
  }
  switch (kind) {
    case "key":
      return { auth: null, findings };
    case "aws": {
      const region = entry.region ?? regionIn(baseUrl);
      if (region === null) {
        findings.push(problem([...path, "region"], "this is missing: requests are signed for a region", "add region: …"));
      }
      return { auth: { kind, region: region ?? "", service: cloudAuth.awsService }, findings };
    }
    case "google":
      return { auth: { kind, scope: cloudAuth.googleScope, tokenUrl: tokenUrl ?? cloudAuth.googleTokenUrl }, findings };
    case "entra":
      return { auth: { kind, scope: cloudAuth.entraScope, tokenUrl }, findings };
  }
}

/** The region in a host name such as `service.eu-central-1.amazonaws.com`. */
function regionIn(baseUrl: string): string | null {
  return /[./]([a-z]{2,4}(?:-[a-z]+){1,2}-\d{1,2})\./.exec(baseUrl)?.[1] ?? null;
}

/** The secret as it is kept, or why it cannot be used. */
export function readAuthSecret(kind: AuthKind, secret: string): string | { readonly reason: string; readonly fix: string } {
  switch (kind) {
    case "key":
      return secret;
    case "aws":
      return awsKeysOf(secret) === null
        ? {
            reason: "this is not a pair of access keys",
            fix: "write ACCESS_KEY_ID:SECRET_ACCESS_KEY, and :SESSION_TOKEN for temporary keys",
          }
        : secret;
    case "google": {
      const account = serviceAccountOf(secret);
      if (account !== null) return serviceAccountText(account);
      if (externalAccountOf(secret) !== null) return externalAccountText(secret);
      return {
        reason: "this is neither the JSON of a service account nor of an external account with a file or a URL",
        fix: "give the key file of a service account or the file of the external account, as it is or in base64",
      };
    }
    case "entra":
      return clientSecretOf(secret) === null
        ? { reason: "this is not the secret of an application", fix: "write TENANT:CLIENT_ID:CLIENT_SECRET" }
        : secret;
  }
}
