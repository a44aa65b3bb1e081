import { afterAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Channel } from "../../src/channels/channel.ts";
import type { ChannelAuth } from "../../src/channels/channel-auth.ts";
import { withCredentials } from "../../src/net/credentials/authenticated-send.ts";
import { machineFacts } from "../../src/net/credentials/machine-facts.ts";
import { TokenCache } from "../../src/net/credentials/token-cache.ts";
import { makeObtainToken } from "../../src/net/credentials/token-client.ts";
import type { AccessToken } from "../../src/net/credentials/token-request.ts";
import { failure, type Failure } from "../../src/operations/failure.ts";
import { channel as planned } from "../support/plan-world.ts";

setDefaultTimeout(60_000);

/** One server stands for the services of a machine and of its cloud, and notes what they were asked. */
const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: respond });
const base = `http://127.0.0.1:${server.port}`;
const asked: string[] = [];
const folder = mkdtempSync(join(tmpdir(), "sluice-identity-"));
const file = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

afterAll(async () => {
  rmSync(folder, { recursive: true });
  await server.stop(true);
});

beforeEach(() => {
  asked.length = 0;
});

const wallMs = Date.UTC(2026, 10, 17, 5);
const hourLater = new Date(wallMs + 3_600_000).toISOString();
const keys = { AccessKeyId: "ASIAROLE", SecretAccessKey: "secret/of+the+role", Token: "session==", Expiration: hourLater };
const keysText = "ASIAROLE:secret/of+the+role:session==";

async function respond(request: Request): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  const header = (name: string): string | null => request.headers.get(name);
  const form = new URLSearchParams(request.method === "POST" ? await request.text() : "");
  asked.push(`${request.method} ${pathname}`);
  switch (pathname) {
    case "/latest/api/token":
      return new Response(header("x-aws-ec2-metadata-token-ttl-seconds") === null ? "" : "imds-token");
    case "/latest/meta-data/iam/security-credentials/":
      return new Response(header("x-aws-ec2-metadata-token") === "imds-token" ? "my-role" : "", { status: 200 });
    case "/latest/meta-data/iam/security-credentials/my-role":
      return Response.json({ Code: "Success", ...keys });
    case "/container":
      return header("authorization") === "agent-token" ? Response.json(keys) : Response.json({ code: "AccessDenied" }, { status: 403 });
    case "/sts": {
      if (form.get("WebIdentityToken") !== "kube-token" || form.get("RoleArn") !== "arn:aws:iam::1:role/r") {
        return new Response("<Error><Code>InvalidIdentityToken</Code></Error>", { status: 400 });
      }
      const fields = Object.entries({ ...keys, SessionToken: keys.Token }).map(([name, value]) => `<${name}>${value}</${name}>`);
      return new Response(`<Credentials>${fields.join("")}</Credentials>`);
    }
    case "/identity":
      return header("x-identity-header") === "app-secret" && searchParams.get("resource") === "https://service.example"
        ? Response.json({ access_token: "app-service-token", expires_on: String(wallMs / 1000 + 3600) })
        : new Response("", { status: 400 });
    case "/tenant/oauth2/v2.0/token":
      return form.get("client_assertion") === "kube-token" && form.get("client_id") === "client"
        ? Response.json({ access_token: "workload-token", expires_in: 3600 })
        : Response.json({ error: "invalid_client" }, { status: 401 });
    case "/subject":
      return Response.json({ value: header("x-kind") === "oidc" ? "kube-token" : "" });
    case "/exchange":
      return form.get("subject_token") === "kube-token" && form.get("audience") === "//iam.example/pool"
        ? Response.json({ access_token: "exchanged-token", expires_in: 3600 })
        : Response.json({ error: "invalid_grant", error_description: form.get("subject_token") }, { status: 400 });
    case "/impersonate":
      return header("authorization") === "Bearer exchanged-token"
        ? Response.json({ accessToken: "impersonated-token", expireTime: hourLater })
        : new Response("", { status: 403 });
    default:
      return new Response("", { status: 404 });
  }
}

const channel: Channel = { ...planned("cloud"), timeouts: { ...planned("cloud").timeouts, connectMs: 5000 }, proxy: null };
const aws: ChannelAuth = { kind: "aws", region: "eu-central-1", service: "bedrock" };
const entra: ChannelAuth = { kind: "entra", scope: "https://service.example/.default", tokenUrl: null };
const google: ChannelAuth = { kind: "google", scope: "https://scope.example/all", tokenUrl: "https://tokens.example" };

function obtain(auth: ChannelAuth, env: Readonly<Record<string, string>>, secret?: string, over = channel): Promise<AccessToken | Failure> {
  const machine = machineFacts({ AWS_EC2_METADATA_SERVICE_ENDPOINT: base, ...env });
  return makeObtainToken({ wallMs: () => wallMs, nowMs: () => performance.now(), machine })(auth, secret, over);
}

const token = file("token", "kube-token\n");
const role = { AWS_WEB_IDENTITY_TOKEN_FILE: token, AWS_ROLE_ARN: "arn:aws:iam::1:role/r", AWS_ENDPOINT_URL_STS: `${base}/sts` };
const agent = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${base}/container`, AWS_CONTAINER_AUTHORIZATION_TOKEN: "agent-token" };

describe("the access keys of a machine come from", () => {
  test.each([
    ["the environment", { AWS_ACCESS_KEY_ID: "AKID", AWS_SECRET_ACCESS_KEY: "s", ...role, ...agent }, "AKID:s", []],
    [
      "the profile that is named",
      {
        AWS_SHARED_CREDENTIALS_FILE: file("credentials", "[other]\naws_access_key_id = AK2\naws_secret_access_key=s2\n"),
        AWS_PROFILE: "other",
      },
      "AK2:s2",
      [],
    ],
    [
      "the usual profile of the settings",
      { AWS_CONFIG_FILE: file("config", "[default]\r\naws_access_key_id=AK3\r\naws_secret_access_key = s3\r\naws_session_token = t3\r\n") },
      "AK3:s3:t3",
      [],
    ],
    ["the role of a service account", { ...role, ...agent }, keysText, ["POST /sts"]],
    ["the container", agent, keysText, ["GET /container"]],
    [
      "the instance",
      {},
      keysText,
      [
        "PUT /latest/api/token",
        "GET /latest/meta-data/iam/security-credentials/",
        "GET /latest/meta-data/iam/security-credentials/my-role",
      ],
    ],
  ])("%s", async (_, env, value, requests) => {
    const found = await obtain(aws, env);
    expect(found).toMatchObject({ value });
    expect("lifetimeMs" in found && found.lifetimeMs).toBe(requests.length === 0 ? 300_000 : 3_600_000);
    expect(asked).toEqual(requests);
  });

  test.each([
    ["a token that is not accepted", { ...role, AWS_WEB_IDENTITY_TOKEN_FILE: file("wrong", "wrong-token") }, "InvalidIdentityToken"],
    ["a token file that is not there", { ...role, AWS_WEB_IDENTITY_TOKEN_FILE: join(folder, "absent") }, "cannot be read"],
    ["an agent that refuses", { ...agent, AWS_CONTAINER_AUTHORIZATION_TOKEN: "wrong-token" }, "AccessDenied"],
    [
      "an agent that is not of this machine",
      { ...agent, AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://agent.example/" },
      "no address of this machine",
    ],
    [
      "an agent whose name only begins as an address of this machine",
      { ...agent, AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://127.0.0.1.agent.example/" },
      "no address of this machine",
    ],
    ["no machine of the cloud", { AWS_EC2_METADATA_DISABLED: "true" }, "no access keys were found"],
  ])("nowhere, with %s: that is a failure of the credential, and shows no secret", async (_, env, detail) => {
    const outcome = await obtain(aws, env);
    expect(outcome).toMatchObject({ scope: "credential", detail: expect.stringContaining(detail) as string });
    expect(JSON.stringify(outcome)).not.toContain("wrong-token");
  });

  test("one request at a time, for all calls, and each call is signed with them", async () => {
    const sent: Readonly<Record<string, string>>[] = [];
    const tokens = new TokenCache(() => 0);
    const machine = machineFacts(agent);
    const sending = withCredentials(
      ({ headers }) => {
        sent.push(headers);
        return { reply: Promise.resolve(failure("unreachable", "nobody is there")), abort: () => {} };
      },
      {
        secret: () => undefined,
        wallMs: () => wallMs,
        tokens,
        obtain: makeObtainToken({ wallMs: () => wallMs, nowMs: () => performance.now(), machine }),
      },
    );
    const request = { method: "POST", url: "https://up.example/", headers: {}, body: null } as const;
    const calls = Array.from({ length: 3 }, () => sending(request, { ...channel, auth: aws }, "cloud#1").reply);
    await Promise.all(calls);
    expect(asked).toEqual(["GET /container"]);
    for (const headers of sent) {
      expect(headers["x-amz-security-token"]).toBe("session==");
      expect(headers["authorization"]).toContain("Credential=ASIAROLE/20261117/eu-central-1/bedrock/");
    }
    expect(tokens.known).toContain("secret/of+the+role");
  });
});

describe("an access token of Entra comes from", () => {
  test.each([
    ["the App Service", { IDENTITY_ENDPOINT: `${base}/identity`, IDENTITY_HEADER: "app-secret" }, "app-service-token"],
    [
      "the workload of a cluster",
      { AZURE_FEDERATED_TOKEN_FILE: token, AZURE_CLIENT_ID: "client", AZURE_TENANT_ID: "tenant", AZURE_AUTHORITY_HOST: `${base}/` },
      "workload-token",
    ],
  ])("%s", async (_, env, value) => {
    expect(await obtain(entra, env)).toEqual({ value, lifetimeMs: 3_600_000 });
  });
});

describe("an external account of Google Cloud", () => {
  const account = {
    type: "external_account",
    audience: "//iam.example/pool",
    subject_token_type: "urn:jwt",
    token_url: `${base}/exchange`,
  };
  const url = { url: `${base}/subject`, headers: { "X-Kind": "oidc" }, format: { type: "json", subject_token_field_name: "value" } };

  test.each([
    ["in a file", { credential_source: { file: token } }, "exchanged-token"],
    ["at a URL", { credential_source: url }, "exchanged-token"],
    ["and a service account", { credential_source: url, service_account_impersonation_url: `${base}/impersonate` }, "impersonated-token"],
  ])("gets a token for the one %s", async (_, more, value) => {
    expect(await obtain(google, {}, JSON.stringify({ ...account, ...more }))).toEqual({ value, lifetimeMs: 3_600_000 });
  });

  test("that is refused shows nothing of its token", async () => {
    const wrong = JSON.stringify({ ...account, credential_source: { file: file("wrong-subject", "wrong-token") } });
    const outcome = await obtain(google, {}, wrong);
    expect(outcome).toMatchObject({ kind: "unauthorized", scope: "credential", detail: "the token service answered 400: invalid_grant" });
    expect(JSON.stringify(outcome)).not.toContain("wrong-token");
  });

  test("of a channel that was added at run time reads no file and asks nobody", async () => {
    const secret = JSON.stringify({ ...account, credential_source: { file: token } });
    expect(await obtain(google, {}, secret, { ...channel, reach: "public" })).toMatchObject({ kind: "misconfigured" });
    expect(asked).toEqual([]);
  });
});
