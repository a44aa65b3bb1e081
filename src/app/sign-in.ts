import type { SignInServices } from "../admin/services.ts";
import type { Settings } from "../config/settings.ts";
import { IssuerClient } from "../identity/issuer-client.ts";
import { makeFetchText } from "../net/client/fetch-text.ts";
import type { TextSeal } from "../operations/conversation/sealed-parts.ts";

export interface SignInPorts {
  /** What a browser keeps while its person signs in is sealed. */
  readonly seal: TextSeal;
  readonly wallMs: () => number;
  readonly nowMs: () => number;
}

/** How people sign in, as the settings say. The provider is asked when the first person signs in, so that it does not delay the start. */
export async function signInServices({ signIn, allowPrivate }: Settings, { seal, wallMs, nowMs }: SignInPorts): Promise<SignInServices> {
  const { oidc, ...rules } = signIn;
  if (oidc === null) return { ...rules, oidc: null };
  const { publicUrl, adminGroups, groupAdmins, viewerGroups, issuer, clientId, clientSecret, scopes, groupsClaim, logoutRedirect } = oidc;
  // Not loaded by gateways that do not need it.
  const { OidcProvider } = await import("../identity/oidc-provider.ts");
  const { callbackPath } = await import("../admin/routes/sign-in-routes.ts");
  const provider = new OidcProvider({
    client: new IssuerClient(issuer, allowPrivate, makeFetchText({ nowMs })),
    clientId,
    clientSecret,
    redirectUrl: publicUrl + callbackPath,
    logoutRedirect,
    scopes,
    groupsClaim,
    wallMs,
    nowMs,
  });
  return { ...rules, oidc: { provider, publicUrl, adminGroups, groupAdmins, viewerGroups, seal } };
}
