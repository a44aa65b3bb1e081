import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { decodeJwt, exportJWK, generateKeyPair, type JWK, type JWTPayload } from "jose";
// @ts-expect-error: The package brings no types along.
import UntypedProvider from "oidc-provider";

/** What is used of it. */
interface RealProvider {
  callback(): (request: IncomingMessage, response: ServerResponse) => void;
  interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>;
  readonly Grant: new (of: { readonly clientId: string; readonly accountId: string }) => {
    addOIDCScope(scope: string): void;
    save(): Promise<string>;
  };
}

const Provider = UntypedProvider as unknown as new (issuer: string, configuration: object) => RealProvider;

export const clientSecret = "the-secret-of-the-gateway-32-bytes";

/**
 * A real OpenID Connect provider on this machine. Whoever it is asked to sign in is `person`, without a form, so that a test needs no
 * browser.
 */
export class IdentityProvider implements AsyncDisposable {
  person = "ada";
  readonly people: Record<string, readonly string[]> = { ada: ["platform"], bob: ["engineering"], gil: ["leads", "engineering"], eve: [] };
  /** Of those who call themselves otherwise than they are called here. */
  readonly emails: Record<string, string> = {};
  /** What was asked of it: paths. */
  readonly asked: string[] = [];
  /** Puts another ID token in the place of a real one, given what that says and the key that it is signed with. Null: none. */
  forge: ((claims: JWTPayload, key: JWK) => Promise<string>) | null = null;
  private handle: (request: IncomingMessage, response: ServerResponse) => void = () => {};

  private constructor(
    private readonly server: Server,
    readonly issuer: string,
  ) {}

  static async start(): Promise<IdentityProvider> {
    const server = createServer((request, response) => provider.handle(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const provider = new IdentityProvider(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    return provider;
  }

  /** Serves one client, with new signing keys each time. */
  async serve(redirectUri: string): Promise<void> {
    const { people, emails } = this;
    const key = await makeSigningJwk();
    const real = new Provider(this.issuer, {
      clients: [
        {
          client_id: "sluice",
          client_secret: clientSecret,
          redirect_uris: [redirectUri],
          post_logout_redirect_uris: [new URL("/console", redirectUri).href],
          response_types: ["code"],
        },
      ],
      claims: { openid: ["sub"], email: ["email"], groups: ["groups"] },
      scopes: ["openid", "email", "groups"],
      cookies: { keys: ["a key for cookies"] },
      jwks: { keys: [key] },
      pkce: { required: () => true },
      features: {
        devInteractions: { enabled: false },
        // Its own page asks for a font of the internet.
        rpInitiatedLogout: {
          logoutSource: (page: { body: string }, form: string) => {
            const button = '<button type="submit" form="op.logoutForm" value="yes" name="logout">Yes, sign me out</button>';
            page.body = `<!doctype html><title>Sign out</title><link rel="icon" href="data:,">${form}${button}`;
          },
        },
      },
      interactions: { url: (_: unknown, { uid }: { readonly uid: string }) => `/interaction/${uid}` },
      ttl: { AccessToken: 60, AuthorizationCode: 60, IdToken: 60, Interaction: 60, Session: 60, Grant: 60 },
      findAccount: (_: unknown, id: string) => ({
        accountId: id,
        claims: () => ({ sub: id, email: emails[id] ?? `${id}@example.com`, groups: people[id] ?? [] }),
      }),
      loadExistingGrant: async ({ oidc }: GrantContext) => {
        const grant = new real.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
        grant.addOIDCScope("openid email groups");
        await grant.save();
        return grant;
      },
    });
    const serve = real.callback();
    this.handle = (request, response) => {
      const { pathname } = new URL(request.url ?? "/", this.issuer);
      this.asked.push(pathname);
      if (pathname === "/token" && this.forge !== null) forgeAnswer(response, key, this.forge);
      if (request.url?.startsWith("/interaction/") !== true) return serve(request, response);
      return void real.interactionFinished(request, response, { login: { accountId: this.person } });
    };
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

interface GrantContext {
  readonly oidc: { readonly client: { readonly clientId: string }; readonly session: { readonly accountId: string } };
}

/** Changes what is about to be answered. */
function forgeAnswer(response: ServerResponse, key: JWK, forge: NonNullable<IdentityProvider["forge"]>): void {
  const end = response.end.bind(response) as (body: string) => void;
  response.end = ((body: unknown) => {
    const answer = JSON.parse(String(body)) as { readonly id_token: string };
    void forge(decodeJwt(answer.id_token), key).then((token) => {
      const forged = JSON.stringify({ ...answer, id_token: token });
      response.setHeader("content-length", Buffer.byteLength(forged));
      end(forged);
    });
    return response;
  }) as ServerResponse["end"];
}

/** A key that providers sign with, private part included. */
export async function makeSigningJwk(kid: string = crypto.randomUUID()): Promise<JWK> {
  const { privateKey: key } = await generateKeyPair("RS256", { extractable: true });
  return { ...(await exportJWK(key)), kid, use: "sig", alg: "RS256" };
}

/** Follows redirects with cookies of its own for each origin, as a browser does. */
export class PlainBrowser {
  private readonly jars = new Map<string, Map<string, string>>();
  /** Where it has been. */
  readonly seen: string[] = [];

  cookies(origin: string): string {
    return [...(this.jars.get(origin) ?? [])].map(([name, value]) => `${name}=${value}`).join("; ");
  }

  async go(url: string, headers: Readonly<Record<string, string>> = { accept: "text/html,*/*" }, until = /^$/): Promise<Response> {
    let next = url;
    for (let step = 0; step < 10; step += 1) {
      this.seen.push(next);
      const { origin } = new URL(next);
      const response = await fetch(next, { headers: { ...headers, cookie: this.cookies(origin) }, redirect: "manual" });
      this.keep(origin, response);
      const place = response.headers.get("location");
      if (place === null) return response;
      next = new URL(place, next).href;
      if (until.test(next)) {
        this.seen.push(next);
        return response;
      }
    }
    throw new Error(`too many redirects: ${this.seen.join(" ")}`);
  }

  private keep(origin: string, response: Response): void {
    const jar = this.jars.get(origin) ?? new Map<string, string>();
    this.jars.set(origin, jar);
    for (const line of response.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      const [name = "", ...value] = pair.split("=");
      if (/max-age=0\b|expires=Thu, 01 Jan 1970/i.test(line)) jar.delete(name);
      else jar.set(name, value.join("="));
    }
  }
}
