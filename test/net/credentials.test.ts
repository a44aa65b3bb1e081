import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createVerify, generateKeyPairSync } from "node:crypto";
import { isSigned } from "../support/aws-signature.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";

setDefaultTimeout(60_000);

const clientKey = "client-key-0123456789abcdef";
const accessKeyId = "AKIDTESTTESTTEST";
const secretAccessKey = "secret/access+key0123456789";
const sessionToken = "session/token+0123456789==";
const awsKeys = { accessKeyId, secretAccessKey, sessionToken, region: "eu-central-1" };
const clientSecret = "client~secret.0123456789";
const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const account = {
  client_email: "robot@project.example",
  private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
};

/** One server is the upstream and the token service. It notes what it saw, and answers as `mood` says. */
const seen: { path: string; authorization: string | null }[] = [];
let issued = 0;
let tokenStatus = 200;
let answerDelayMs = 0;
let refusing: string | null = null;
let server: ReturnType<typeof Bun.serve>;
let gateway: Gateway;

beforeAll(async () => {
  server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: respond });
  const base = `http://127.0.0.1:${server.port}`;
  const channel = (name: string, more: Record<string, unknown>) => ({ name, base_url: `${base}/${name}/v1`, models: [name], ...more });
  gateway = await startGateway({
    config: {
      keys: [{ name: "client", key: clientKey }],
      channels: [
        channel("signed", { auth: "aws", region: "eu-central-1", api_key: `${accessKeyId}:${secretAccessKey}:${sessionToken}` }),
        channel("misread", { auth: "aws", region: "eu-central-1", api_key: `${accessKeyId}:another-secret` }),
        channel("account", {
          auth: "google",
          token_url: `${base}/google/token`,
          api_key: Buffer.from(JSON.stringify(account)).toString("base64"),
        }),
        channel("application", { auth: "entra", token_url: `${base}/entra/token`, api_key: `tenant:client-id:${clientSecret}` }),
        channel("unlucky", { auth: "entra", token_url: `${base}/entra/token`, api_key: `tenant:client-id:wrong-secret` }),
      ],
    },
  });
});

afterAll(async () => {
  await gateway.kill();
  await server.stop(true);
});

beforeEach(() => {
  seen.length = 0;
  tokenStatus = 200;
  answerDelayMs = 0;
  refusing = null;
});

async function respond(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  const authorization = request.headers.get("authorization");
  const body = new Uint8Array(await request.arrayBuffer());
  seen.push({ path: pathname, authorization });
  if (pathname.endsWith("/token")) {
    if (answerDelayMs > 0) await Bun.sleep(answerDelayMs);
    return issue(pathname, new URLSearchParams(new TextDecoder().decode(body)));
  }
  const isProven =
    pathname.startsWith("/signed/") || pathname.startsWith("/misread/") ? isSigned(request, body, awsKeys) : isIssued(authorization);
  if (!isProven || authorization === refusing) {
    return Response.json({ message: `refused ${authorization}`, code: "invalid_api_key" }, { status: 401 });
  }
  return Response.json({
    id: "a",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  });
}

function issue(path: string, form: URLSearchParams): Response {
  if (tokenStatus !== 200) return Response.json({ error: "unavailable" }, { status: tokenStatus });
  const isKnown = path.startsWith("/google/") ? isSignedByAccount(form.get("assertion") ?? "") : form.get("client_secret") === clientSecret;
  if (!isKnown) return Response.json({ error: "invalid_client", error_description: form.toString() }, { status: 401 });
  issued += 1;
  return Response.json({ access_token: `token-number-${issued}-0123456789`, expires_in: 3600, token_type: "Bearer" });
}

function isIssued(authorization: string | null): boolean {
  return /^Bearer token-number-\d+-0123456789$/.test(authorization ?? "");
}

function isSignedByAccount(assertion: string): boolean {
  const [header = "", claims = "", signature = ""] = assertion.split(".");
  return createVerify("RSA-SHA256").update(`${header}.${claims}`).verify(publicKey, Buffer.from(signature, "base64url"));
}

function ask(model: string): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${clientKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "héllo" }] }),
  });
}

function tokenRequests(): number {
  return seen.filter(({ path }) => path.endsWith("/token")).length;
}

describe("a channel", () => {
  test("signs its requests so that the upstream can verify them", async () => {
    const response = await ask("signed");
    expect(response.status).toBe(200);
  });

  test("gets no further with another secret, and shows nothing of it", async () => {
    const response = await ask("misread");
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(await response.text()).not.toContain("another-secret");
  });

  test.each(["account", "application"])("of an %s requests one token for many calls", async (model) => {
    answerDelayMs = 50;
    const responses = await Promise.all([ask(model), ask(model), ask(model)]);
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await ask(model)).status).toBe(200);
    expect(tokenRequests()).toBe(1);
  });

  test("requests another token after the upstream refused one", async () => {
    expect((await ask("account")).status).toBe(200);
    refusing = seen.find(({ path }) => path.startsWith("/account/"))?.authorization ?? null;
    seen.length = 0;
    const refused = await ask("account");
    const text = await refused.text();
    expect(text).not.toContain("token-number");
    expect(seen.map(({ path }) => path)).toContain("/account/v1/chat/completions");
  });

  test("whose token service refuses it fails clearly, without asking the upstream", async () => {
    const response = await ask("unlucky");
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(seen.some(({ path }) => path.startsWith("/unlucky/"))).toBe(false);
    const line = await gateway.waitForLog((one) => JSON.stringify(one).includes("the token service answered 401: invalid_client"));
    expect(line).toBeDefined();
  });

  test("leaves no secret and no token in the log", () => {
    const secrets = [
      secretAccessKey,
      sessionToken,
      clientSecret,
      "wrong-secret",
      "another-secret",
      "token-number-",
      account.private_key.slice(40, 80),
    ];
    expect(secrets.filter((secret) => gateway.text.includes(secret))).toEqual([]);
  });
});
