import { isFailure, type Failure } from "../../operations/failure.ts";
import { objectIn, type AccessToken, type TokenRequest } from "./token-request.ts";
import { expiring, refusedBy, tokenIn, unreadableToken, unusable, variable, type IdentityPorts } from "./identity-ports.ts";
import { profileKeys } from "./aws-profile.ts";

/**
 * The access keys of this machine, in the form in which a channel has them, from the first source that there is: the environment, the
 * profile of the user, the identity of a Kubernetes service account (IRSA), the container (ECS, EKS Pod Identity), the instance (EC2). It
 * is the order of the SDKs (docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html). Null answers mean: not this one.
 */
export async function awsIdentity(region: string, ports: IdentityPorts): Promise<AccessToken | Failure> {
  return (
    environmentKeys(ports) ??
    (await profile(ports)) ??
    (await webIdentity(region, ports)) ??
    (await container(ports)) ??
    (await instance(ports)) ??
    unusable("no access keys were found: give api_key, or run with a role")
  );
}

function environmentKeys(ports: IdentityPorts): AccessToken | null {
  const [id, secret] = [variable(ports, "AWS_ACCESS_KEY_ID"), variable(ports, "AWS_SECRET_ACCESS_KEY")];
  if (id === null || secret === null) return null;
  return { value: keysText(id, secret, variable(ports, "AWS_SESSION_TOKEN")), lifetimeMs: rereadMs };
}

async function profile(ports: IdentityPorts): Promise<AccessToken | null> {
  const keys = await profileKeys(ports);
  return keys === null ? null : { value: keysText(keys.id, keys.secret, keys.token), lifetimeMs: rereadMs };
}

/** Keys in a file have no end that is known, and whoever renews them writes them there. */
const rereadMs = 300_000;

async function webIdentity(region: string, ports: IdentityPorts): Promise<AccessToken | Failure | null> {
  const [path, role] = [variable(ports, "AWS_WEB_IDENTITY_TOKEN_FILE"), variable(ports, "AWS_ROLE_ARN")];
  if (path === null || role === null) return null;
  const token = await tokenIn(ports, path);
  if (typeof token !== "string") return token;
  const form = {
    Action: "AssumeRoleWithWebIdentity",
    Version: "2011-06-15",
    RoleArn: role,
    RoleSessionName: variable(ports, "AWS_ROLE_SESSION_NAME") ?? "sluice",
    WebIdentityToken: token,
  };
  const url = variable(ports, "AWS_ENDPOINT_URL_STS") ?? `https://sts.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}/`;
  const headers = { accept: "application/xml", "content-type": "application/x-www-form-urlencoded" };
  const answer = await ports.ask({ method: "POST", url, headers, body: new URLSearchParams(form).toString(), metadata: false });
  if (isFailure(answer)) return answer;
  const field = (name: string): string | null => new RegExp(`<${name}>([^<]{1,4096})</${name}>`).exec(answer.body)?.[1] ?? null;
  if (answer.status !== 200) return refusedBy("the token service", answer.status, field("Code"));
  return (
    readKeys([field("AccessKeyId"), field("SecretAccessKey"), field("SessionToken"), field("Expiration")], ports) ??
    unreadableToken("the token service")
  );
}

/** The endpoint of the container's agent, which the environment names. It gets a token only where that is one of this machine, or encrypted. */
async function container(ports: IdentityPorts): Promise<AccessToken | Failure | null> {
  const relative = variable(ports, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const url = relative === null ? variable(ports, "AWS_CONTAINER_CREDENTIALS_FULL_URI") : `http://169.254.170.2${relative}`;
  if (url === null) return null;
  if (!URL.canParse(url) || !isAgent(new URL(url))) return unusable("AWS_CONTAINER_CREDENTIALS_FULL_URI is no address of this machine");
  const path = variable(ports, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const token = path === null ? variable(ports, "AWS_CONTAINER_AUTHORIZATION_TOKEN") : await tokenIn(ports, path);
  if (token !== null && typeof token !== "string") return token;
  const request = machineRequest("GET", url, token === null ? {} : { authorization: token });
  const answer = await ports.ask(request);
  return isFailure(answer) ? answer : keysIn(answer, "the container's agent", ports);
}

function isAgent({ protocol, hostname }: URL): boolean {
  // Not every name that begins as an address of this machine is one: 127.example.com.
  return protocol === "https:" || agents.has(hostname) || /^127(?:\.\d+){3}$/.test(hostname);
}

const agents: ReadonlySet<string> = new Set(["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "localhost", "[::1]"]);

/** The second version of the instance's metadata service, whose first answer is a token for the others. */
async function instance(ports: IdentityPorts): Promise<AccessToken | Failure | null> {
  if (variable(ports, "AWS_EC2_METADATA_DISABLED")?.toLowerCase() === "true") return null;
  const base = (variable(ports, "AWS_EC2_METADATA_SERVICE_ENDPOINT") ?? "http://169.254.169.254").replace(/\/+$/, "");
  const token = await ports.ask(machineRequest("PUT", `${base}/latest/api/token`, { "x-aws-ec2-metadata-token-ttl-seconds": "300" }));
  if (isFailure(token)) return token;
  if (token.status !== 200 || !/^[\x21-\x7e]{1,1024}$/.test(token.body)) return refusedBy("the metadata service", token.status);
  const headers = { "x-aws-ec2-metadata-token": token.body };
  const roles = `${base}/latest/meta-data/iam/security-credentials/`;
  const named = await ports.ask(machineRequest("GET", roles, headers));
  if (isFailure(named)) return named;
  const role = named.body.split("\n", 1)[0]?.trim() ?? "";
  if (named.status !== 200 || !/^[\w+=,.@-]{1,128}$/.test(role)) return unusable("this instance has no role");
  const answer = await ports.ask(machineRequest("GET", roles + role, headers));
  return isFailure(answer) ? answer : keysIn(answer, "the metadata service", ports);
}

function machineRequest(method: "GET" | "PUT", url: string, headers: Readonly<Record<string, string>>): TokenRequest {
  const body = method === "PUT" ? "" : null;
  return { method, url, headers: { accept: "*/*", ...headers }, body, metadata: false, machine: true };
}

function keysIn(
  { status, body }: { readonly status: number; readonly body: string },
  service: string,
  ports: IdentityPorts,
): AccessToken | Failure {
  const answer = objectIn(body);
  if (status !== 200) return refusedBy(service, status, answer?.["code"]);
  const fields = ["AccessKeyId", "SecretAccessKey", "Token", "Expiration"].map((name) => answer?.[name] ?? null);
  return readKeys(fields, ports) ?? unreadableToken(service);
}

function readKeys(fields: readonly unknown[], { wallMs }: IdentityPorts): AccessToken | null {
  const [id, secret, token, expires] = fields.map((field) => (typeof field === "string" && keyText.test(field) ? field : null));
  if (id == null || secret == null || expires == null) return null;
  return expiring(keysText(id, secret, token ?? null), Date.parse(expires), wallMs());
}

const keyText = /^[\x21-\x7e]{1,4096}$/;

function keysText(id: string, secret: string, token: string | null): string {
  return token === null ? `${id}:${secret}` : `${id}:${secret}:${token}`;
}
