import { isMetadata, isPrivateHost } from "../channels/network.ts";
import { portMax } from "./listen.ts";
import { shownValue, subject } from "./findings/shown-value.ts";

/** An upstream's address that may be used, or why not. */
export type AddressVerdict =
  | { readonly ok: true; readonly url: string; readonly host: string; readonly secure: boolean; readonly near: boolean }
  | { readonly ok: false; readonly reason: string; readonly fix: string };

/** What an address is for, as far as messages about it and its form depend on that. */
export interface AddressUse {
  readonly example: string;
  /** Where a key belongs, if not into the address. */
  readonly keyPlace: string;
  /** With many receivers of webhooks, the key is in the query. */
  readonly mayHaveQuery?: boolean;
}

const ofUpstream: AddressUse = { example: "https://api.example.com/v1", keyPlace: "the key belongs in api_key" };

/**
 * Checks an address that an operator wrote. Private and loopback hosts are allowed in a file: a local model server is an ordinary
 * upstream. The metadata services of clouds are not, in any notation, because they hand out credentials.
 */
export function checkAddress(text: string, { example, keyPlace, mayHaveQuery = false }: AddressUse = ofUpstream): AddressVerdict {
  if (text.length > charactersMax || /[\s\\\p{Cc}]/u.test(text)) return noAddress(text, example);
  const port = /^https?:\/\/[^/?#@]*:(\d+)(?=[/?#]|$)/i.exec(text)?.[1];
  if (port !== undefined && Number(port) > portMax)
    return invalid(`there is no port ${port.slice(0, 12)}`, `write a port from 1 to ${portMax}`);
  // The URL parser accepts a missing slash; code that splits the address does not.
  const url = /^https?:\/\/[^/]/i.test(text) || !/^https?:/i.test(text) ? (URL.canParse(text) ? new URL(text) : null) : null;
  if (url === null || isHostAndPort(text)) return noAddress(text, example);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return invalid("only http and https addresses can be used", "write https://…");
  }
  if (url.username !== "" || url.password !== "") {
    return invalid("an address must not contain a user name or a password", `remove it; ${keyPlace}`);
  }
  if (url.hash !== "" || text.includes("#")) return invalid("an address must not contain a #", "remove it and what follows");
  if (!mayHaveQuery && text.includes("?")) return invalid("an address must not contain a query", "remove the ? and what follows");
  if (url.port === "0") return invalid("port 0 cannot be connected to", "give the port of the server");
  if (isMetadata(url.hostname)) {
    return invalid(
      "this is the address of a cloud's metadata service or of a link-local network, which is never allowed",
      "give the address of the server itself",
    );
  }
  return {
    ok: true,
    url: text.replace(/\/+$/, ""),
    host: `${url.hostname}:${url.port === "" ? (url.protocol === "https:" ? 443 : 80) : url.port}`,
    secure: url.protocol === "https:",
    near: isPrivateHost(url.hostname),
  };
}

const charactersMax = 2048;

/** Without a scheme, what stands before the colon would be taken for one. */
function isHostAndPort(text: string): boolean {
  return /^[\w.-]+:\d{1,5}(?:\/|$)/.test(text);
}

function noAddress(text: string, example: string): AddressVerdict {
  const reason = `${subject(text)} is not the address of a server`;
  if (shownValue(text) === null) return invalid(reason, `write it as in ${example}`);
  // With a port, it is most often a server of one's own.
  if (isHostAndPort(text)) return invalid(reason, `write http://${text}, or https:// if it has TLS`);
  const isBare = /^[\w.-]+\.[\w-]+(?:\/|$)/.test(text);
  return invalid(reason, isBare ? `write https://${text}, or http:// if it has no TLS` : `write it as in ${example}`);
}

function invalid(reason: string, fix: string): AddressVerdict {
  return { ok: false, reason, fix };
}
