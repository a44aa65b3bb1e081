import { describe, expect, test } from "bun:test";
import { signatureHeaders, signingKey, type SignedRequest } from "../../../../src/net/credentials/aws-signature.ts";

/** The keys, time and scope of the examples that AWS publishes. */
const keys = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", sessionToken: null };
const wallMs = Date.UTC(2015, 7, 30, 12, 36, 0);
const scope = { region: "us-east-1", service: "service" };

function signatureOf(request: SignedRequest, more: { service?: string; sessionToken?: string } = {}): string {
  const { service = scope.service, sessionToken = null } = more;
  const headers = signatureHeaders(request, { ...keys, sessionToken }, { ...scope, service }, wallMs);
  return /Signature=([0-9a-f]{64})$/.exec(headers["authorization"] ?? "")?.[1] ?? "";
}

const host = "example.amazonaws.com";
const root = `https://${host}/`;

describe("the signature of a request", () => {
  test.each<readonly [string, SignedRequest, string]>([
    [
      "get-vanilla",
      { method: "GET", url: root, headers: { host }, body: null },
      "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ],
    [
      "get-vanilla-query-order-key-case",
      { method: "GET", url: `${root}?Param2=value2&Param1=value1`, headers: { host }, body: null },
      "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ],
    [
      "post-vanilla",
      { method: "POST", url: root, headers: { host }, body: null },
      "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ],
    [
      "post-x-www-form-urlencoded",
      {
        method: "POST",
        url: root,
        headers: { host, "content-type": "application/x-www-form-urlencoded" },
        body: new TextEncoder().encode("Param1=value1"),
      },
      "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ],
  ])("is the published one of %s", (_, request, expected) => {
    expect(signatureOf(request)).toBe(expected);
  });

  test("is the one of the documentation's request to list users", () => {
    const request: SignedRequest = {
      method: "GET",
      url: "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
      headers: { host: "iam.amazonaws.com", "content-type": "application/x-www-form-urlencoded; charset=utf-8" },
      body: null,
    };
    expect(signatureOf(request, { service: "iam" })).toBe("5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
  });

  test("uses the documented signing key of a day", () => {
    expect(signingKey(keys.secretAccessKey, "20150830", { region: "us-east-1", service: "iam" }).toString("hex")).toBe(
      "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9",
    );
  });

  test("names the time, the scope and the signed headers, and signs a session token", () => {
    const headers = signatureHeaders(
      { method: "POST", url: root, headers: { host, "content-type": "application/json" }, body: null },
      { ...keys, sessionToken: "token" },
      scope,
      wallMs,
    );
    expect(headers["x-amz-date"]).toBe("20150830T123600Z");
    expect(headers["x-amz-security-token"]).toBe("token");
    expect(headers["authorization"]).toStartWith(
      "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, " +
        "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=",
    );
  });

  test.each<readonly [string, Partial<SignedRequest>]>([
    ["the body", { body: new TextEncoder().encode("{}") }],
    ["the path", { url: `${root}model` }],
    ["an encoded path", { url: `${root}model/a%3A0` }],
    ["a header", { headers: { host: "other.amazonaws.com" } }],
    ["the method", { method: "GET" }],
  ])("depends on %s", (_, change) => {
    const request: SignedRequest = { method: "POST", url: `${root}model/a:0`, headers: { host }, body: null };
    expect(signatureOf({ ...request, ...change })).not.toBe(signatureOf(request));
  });
});
