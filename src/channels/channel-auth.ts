/**
 * How the gateway proves itself to an upstream, where that is not a key in a header. The secret of such a credential is a text as
 * well, so that secrets are stored, encrypted and pooled in one way whatever they are.
 */
export type ChannelAuth =
  /**
   * Each request is signed (AWS Signature Version 4). The secret: `ACCESS_KEY_ID:SECRET_ACCESS_KEY`, and `:SESSION_TOKEN` if there is one.
   * Without one, the keys of this machine.
   */
  | { readonly kind: "aws"; readonly region: string; readonly service: string }
  /** Access tokens of Google Cloud. The secret: the JSON of a service account, or of an external account. Without one, the metadata server. */
  | { readonly kind: "google"; readonly scope: string; readonly tokenUrl: string }
  /** Access tokens of Microsoft Entra. The secret: `TENANT:CLIENT_ID:CLIENT_SECRET`. Without one, the managed identity of this machine. */
  | { readonly kind: "entra"; readonly scope: string; readonly tokenUrl: string | null };

export type AuthKind = "key" | ChannelAuth["kind"];
export const authKinds: readonly AuthKind[] = ["key", "aws", "google", "entra"];

export interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | null;
}

export function awsKeysOf(secret: string): AwsKeys | null {
  const [accessKeyId = "", secretAccessKey = "", sessionToken = "", ...more] = secret.split(":");
  if (accessKeyId === "" || secretAccessKey === "" || more.length > 0) return null;
  return { accessKeyId, secretAccessKey, sessionToken: sessionToken === "" ? null : sessionToken };
}

export interface ServiceAccount {
  readonly clientEmail: string;
  /** In PEM. */
  readonly privateKey: string;
  readonly privateKeyId: string | null;
}

/** Reads the JSON of a service account, also where it is in base64, as it often is in a variable. */
export function serviceAccountOf(secret: string): ServiceAccount | null {
  const account = objectIn(secret) ?? objectIn(fromBase64(secret));
  const clientEmail = account?.["client_email"];
  const privateKey = account?.["private_key"];
  if (typeof clientEmail !== "string" || clientEmail === "" || typeof privateKey !== "string") return null;
  const privateKeyId = account?.["private_key_id"];
  // In a key that passed through a shell, line breaks are often still written as `\n`.
  const pem = privateKey.replaceAll("\\n", "\n");
  if (!pem.includes("-----BEGIN PRIVATE KEY-----")) return null;
  return { clientEmail, privateKey: pem, privateKeyId: typeof privateKeyId === "string" ? privateKeyId : null };
}

/** The same account as one line without spaces, as other secrets are. */
export function serviceAccountText({ clientEmail, privateKey, privateKeyId }: ServiceAccount): string {
  const account = { client_email: clientEmail, private_key: privateKey, private_key_id: privateKeyId };
  return JSON.stringify(account).replaceAll(" ", "\\u0020");
}

/** An identity of another provider, which Google Cloud accepts (workload identity federation). */
export interface ExternalAccount {
  readonly audience: string;
  readonly subjectTokenType: string;
  readonly tokenUrl: string;
  /** Where the token of a service account is requested with the token of the identity; null: that is used itself. */
  readonly impersonationUrl: string | null;
  readonly source:
    | { readonly kind: "file"; readonly path: string }
    | { readonly kind: "url"; readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** The field of the source that holds the token, where the source is JSON. */
  readonly tokenField: string | null;
}

/** Reads the JSON of an external account, whose token is in a file or at a URL. Others need programs or clouds that the gateway does not ask. */
export function externalAccountOf(secret: string): ExternalAccount | null {
  const account = objectIn(secret) ?? objectIn(fromBase64(secret));
  if (account?.["type"] !== "external_account") return null;
  const [audience, subjectTokenType, tokenUrl] = ["audience", "subject_token_type", "token_url"].map((name) => account[name]);
  const source = sourceOf(objectOf(account["credential_source"]));
  if (typeof audience !== "string" || typeof subjectTokenType !== "string" || !isSecureUrl(tokenUrl) || source === null) return null;
  const impersonationUrl = account["service_account_impersonation_url"] ?? null;
  if (impersonationUrl !== null && !isSecureUrl(impersonationUrl)) return null;
  const format = objectOf(objectOf(account["credential_source"])?.["format"]);
  const field = format?.["type"] === "json" ? format["subject_token_field_name"] : null;
  if (field !== null && typeof field !== "string") return null;
  return { audience, subjectTokenType, tokenUrl, impersonationUrl, source, tokenField: field };
}

function sourceOf(source: Readonly<Record<string, unknown>> | null): ExternalAccount["source"] | null {
  const [file, url] = [source?.["file"], source?.["url"]];
  if (typeof file === "string" && file !== "") return { kind: "file", path: file };
  if (typeof url !== "string" || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) return null;
  if (source?.["environment_id"] !== undefined) return null;
  const headers = Object.entries(objectOf(source?.["headers"]) ?? {}).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return { kind: "url", url, headers: Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])) };
}

/** Tokens are not sent unencrypted, but to this machine. */
function isSecureUrl(url: unknown): url is string {
  if (typeof url !== "string" || !URL.canParse(url)) return false;
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || (protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(hostname));
}

/** The same account as one line without spaces, as other secrets are. */
export function externalAccountText(secret: string): string {
  return JSON.stringify(objectIn(secret) ?? objectIn(fromBase64(secret))).replaceAll(" ", "\\u0020");
}

export interface ClientSecret {
  readonly tenant: string;
  readonly clientId: string;
  readonly secret: string;
}

export function clientSecretOf(text: string): ClientSecret | null {
  const match = /^([A-Za-z0-9.-]{1,253}):([A-Za-z0-9-]{1,64}):(.+)$/.exec(text);
  if (match === null) return null;
  const [, tenant = "", clientId = "", secret = ""] = match;
  return { tenant, clientId, secret };
}

/** What of a secret must not appear in a text: it and its secret parts. */
export function secretPartsOf(auth: ChannelAuth | undefined, secret: string): readonly string[] {
  switch (auth?.kind) {
    case undefined:
      return [secret];
    case "aws": {
      const keys = awsKeysOf(secret);
      return keys === null ? [secret] : [secret, keys.secretAccessKey, ...(keys.sessionToken === null ? [] : [keys.sessionToken])];
    }
    case "google": {
      const account = serviceAccountOf(secret);
      const lines = account?.privateKey.split("\n").filter((line) => line.length >= keyLineMin && !line.startsWith("-----")) ?? [];
      return [secret, ...lines];
    }
    case "entra": {
      const client = clientSecretOf(secret);
      return client === null ? [secret] : [secret, client.secret];
    }
  }
}

/** The last line of a key may be a few characters, which are in other texts too. */
const keyLineMin = 16;

function objectIn(text: string | null): Readonly<Record<string, unknown>> | null {
  if (text === null || text.length > secretMax) return null;
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return null;
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : null;
}

const secretMax = 64 * 1024;

function fromBase64(text: string): string | null {
  try {
    return atob(text);
  } catch {
    return null;
  }
}
