import type { ExternalAccount } from "../../channels/channel-auth.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { formRequest, objectIn, readToken, type AccessToken } from "./token-request.ts";
import { expiring, refusedBy, tokenIn, unreadableToken, unusable, type IdentityPorts } from "./identity-ports.ts";

/**
 * An access token for an identity of another provider (workload identity federation): its token is exchanged for one of Google, with which
 * a service account may be impersonated (docs.cloud.google.com/iam/docs/workload-identity-federation; google.aip.dev/auth/4117).
 */
export async function federatedToken(account: ExternalAccount, scope: string, ports: IdentityPorts): Promise<AccessToken | Failure> {
  const subject = await subjectToken(account, ports);
  if (typeof subject !== "string") return subject;
  const exchanged = await ports.ask(
    formRequest(account.tokenUrl, {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
      audience: account.audience,
      scope,
      subject_token: subject,
      subject_token_type: account.subjectTokenType,
    }),
  );
  if (isFailure(exchanged)) return exchanged;
  const token = readToken(exchanged.status, exchanged.body, ports.wallMs());
  if (isFailure(token) || account.impersonationUrl === null) return token;
  return impersonated(account.impersonationUrl, token.value, scope, ports);
}

async function subjectToken({ source, tokenField }: ExternalAccount, ports: IdentityPorts): Promise<string | Failure> {
  if (source.kind === "file" && tokenField === null) return tokenIn(ports, source.path);
  const text = source.kind === "file" ? await ports.readFile(source.path) : await fetchedText(source, ports);
  if (text === null) return unusable("the file with the token of this machine cannot be read");
  if (typeof text !== "string") return text;
  const token = tokenField === null ? text.trim() : objectIn(text)?.[tokenField];
  return typeof token === "string" && token !== "" ? token : unreadableToken("the source of this machine's token");
}

async function fetchedText(
  source: { readonly url: string; readonly headers: Readonly<Record<string, string>> },
  ports: IdentityPorts,
): Promise<string | Failure> {
  const answer = await ports.ask({ method: "GET", url: source.url, headers: source.headers, body: null, metadata: false, machine: true });
  if (isFailure(answer)) return answer;
  return answer.status === 200 ? answer.body : refusedBy("the source of this machine's token", answer.status);
}

async function impersonated(url: string, token: string, scope: string, ports: IdentityPorts): Promise<AccessToken | Failure> {
  const headers = { accept: "application/json", "content-type": "application/json", authorization: `Bearer ${token}` };
  const answer = await ports.ask({ method: "POST", url, headers, body: JSON.stringify({ scope: [scope] }), metadata: false });
  if (isFailure(answer)) return answer;
  const fields = objectIn(answer.body);
  if (answer.status !== 200) return refusedBy("the service that impersonates", answer.status);
  const [value, expires] = [fields?.["accessToken"], fields?.["expireTime"]];
  if (typeof value !== "string" || !/^[\x21-\x7e]{1,32768}$/.test(value) || typeof expires !== "string") {
    return unreadableToken("the service that impersonates");
  }
  return expiring(value, Date.parse(expires), ports.wallMs()) ?? unreadableToken("the service that impersonates");
}
