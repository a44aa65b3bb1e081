import { isFailure, type Failure } from "../../operations/failure.ts";
import { formRequest, metadataRequest, readToken, type AccessToken, type TokenRequest } from "./token-request.ts";
import { tokenIn, variable, type IdentityPorts } from "./identity-ports.ts";

/**
 * An access token for the identity of this machine: a workload of Kubernetes (learn.microsoft.com/azure/aks/workload-identity-overview), an
 * App Service, a Function or a Container App (learn.microsoft.com/azure/app-service/overview-managed-identity), or a virtual machine.
 */
export async function entraIdentity(scope: string, ports: IdentityPorts): Promise<AccessToken | Failure> {
  const request = await identityRequest(scope, ports);
  if (isFailure(request)) return request;
  const answer = await ports.ask(request);
  return isFailure(answer) ? answer : readToken(answer.status, answer.body, ports.wallMs());
}

async function identityRequest(scope: string, ports: IdentityPorts): Promise<TokenRequest | Failure> {
  const clientId = variable(ports, "AZURE_CLIENT_ID");
  const [path, tenant] = [variable(ports, "AZURE_FEDERATED_TOKEN_FILE"), variable(ports, "AZURE_TENANT_ID")];
  if (path !== null && clientId !== null && tenant !== null) {
    const assertion = await tokenIn(ports, path);
    if (typeof assertion !== "string") return assertion;
    const authority = (variable(ports, "AZURE_AUTHORITY_HOST") ?? "https://login.microsoftonline.com").replace(/\/+$/, "");
    return formRequest(`${authority}/${encodeURIComponent(tenant)}/oauth2/v2.0/token`, {
      grant_type: "client_credentials",
      client_id: clientId,
      client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      client_assertion: assertion,
      scope,
    });
  }
  const asked = new URLSearchParams({
    resource: scope.replace(/\/\.default$/, ""),
    ...(clientId === null ? undefined : { client_id: clientId }),
  });
  const [endpoint, secret] = [variable(ports, "IDENTITY_ENDPOINT"), variable(ports, "IDENTITY_HEADER")];
  if (endpoint !== null && secret !== null) {
    const url = `${endpoint}${endpoint.includes("?") ? "&" : "?"}api-version=2019-08-01&${asked.toString()}`;
    const headers = { accept: "application/json", "x-identity-header": secret };
    return { method: "GET", url, headers, body: null, metadata: false, machine: true };
  }
  return metadataRequest(`${entraMetadata}&${asked.toString()}`, { metadata: "true" });
}

const entraMetadata = "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01";
