import { problem, warning, type Finding } from "../findings/problem.ts";
import { isLoopback } from "../listen.ts";
import type { ConfigFile } from "../schema.ts";
import type { OidcSettings, SignInSettings } from "../settings.ts";

export interface SignInReading {
  readonly settings: SignInSettings;
  readonly findings: readonly Finding[];
}

/** `secure`: browsers reach the admin listener over https. */
export function readSignIn({ sign_in: entry, admin }: Pick<ConfigFile, "sign_in" | "admin">, secure: boolean): SignInReading {
  const findings: Finding[] = [];
  const at = (...path: readonly string[]): readonly string[] => ["sign_in", ...path];
  if (entry.idle > entry.session)
    findings.push(warning(at("idle"), "sign_in.session is shorter and applies first", "lower it, or raise that"));
  if (entry.oidc === undefined) {
    if (!entry.local_accounts) findings.push(problem(at("local_accounts"), "nobody could sign in", "set sign_in.oidc, or remove the line"));
  } else {
    if (admin === null) findings.push(warning(at("oidc"), "the admin API is off, so that nobody signs in", "set admin, or remove this"));
    findings.push(...oidcFindings(entry.oidc, secure));
  }
  return {
    settings: {
      localAccounts: entry.local_accounts,
      sessionLifeMs: entry.session,
      sessionIdleMs: entry.idle,
      oidc: entry.oidc === undefined ? null : oidcOf(entry.oidc),
    },
    findings,
  };
}

type OidcEntry = NonNullable<ConfigFile["sign_in"]["oidc"]>;

function oidcOf(entry: OidcEntry): OidcSettings {
  return {
    issuer: entry.issuer,
    clientId: entry.client_id,
    clientSecret: entry.client_secret ?? null,
    publicUrl: new URL(entry.public_url).origin,
    logoutRedirect: entry.logout_redirect ?? null,
    scopes: [...new Set(["openid", ...(entry.scopes ?? ["profile", "email"])])],
    groupsClaim: entry.groups_claim,
    adminGroups: entry.admin_groups ?? [],
    groupAdmins: entry.group_admins ?? new Map(),
    viewerGroups: entry.viewer_groups ?? [],
  };
}

function oidcFindings(entry: OidcEntry, secure: boolean): readonly Finding[] {
  const findings: Finding[] = [];
  const path = ["sign_in", "oidc"];
  const { protocol, hostname, pathname } = new URL(entry.public_url);
  if (pathname !== "/") {
    findings.push(problem([...path, "public_url"], "the admin listener serves no path of its own", "give scheme, host and port alone"));
  }
  const isPlain = protocol === "http:";
  if (isPlain && !isLoopback(hostname.replace(/^\[|\]$/g, ""))) {
    findings.push(problem([...path, "public_url"], "whoever signs in over plain HTTP can be listened to", "write https://…"));
  } else if (isPlain === secure) {
    const reason = secure ? "the admin listener is reached over https" : "the admin listener is not set up to be reached over https";
    const fix = secure ? "write https://…" : "set tls, or admin_tls: true if a proxy in front of it speaks TLS";
    findings.push(problem([...path, "public_url"], reason, fix));
  }
  const groups = [...(entry.admin_groups ?? []), ...(entry.group_admins?.keys() ?? []), ...(entry.viewer_groups ?? [])];
  if (groups.length === 0) {
    findings.push(problem(path, "nobody would have a role", "set admin_groups, group_admins or viewer_groups"));
  }
  if (entry.admin_groups?.includes("*") === true) {
    findings.push(
      problem([...path, "admin_groups"], "everybody whom the provider lets in would be an admin", "name the groups of the admins"),
    );
  }
  return findings;
}
