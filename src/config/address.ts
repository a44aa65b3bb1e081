import { isMetadata, isPrivateHost } from "../channels/network.ts";
import { portMax } from "./listen.ts";
import { shownValue, subject } from "./findings/shown-value.ts";

/** An upstream's address that may be used, or why not. */
export type AddressVerdict =
  | { readonly ok: true; readonly url: string; readonly host: string; readonly secure: boolean; readonly near: boolean }
  | { readonly ok: false; readonly reason: string; readonly fix: string };

/**
 * Checks an address that an operator wrote. Private and loopback hosts are allowed in a file: a local model server is an ordinary
 * upstream. The metadata services of clouds are not, in any notation, because they hand out credentials.
 */
export function checkAddress(text: string): AddressVerdict {
  if (text.length > charactersMax || /[\s\\\p{Cc}]/u.test(text)) return noAddress(text);
  const port = /^https?:\/\/[^/?#@]*:(\d+)(?=[/?#]|$)/i.exec(text)?.[1];
  if (port !== undefined && Number(port) > portMax)
    return invalid(`there is no port ${port.slice(0, 12)}`, `write a port from 1 to ${portMax}`);
  // The URL parser accepts a missing slash; code that splits the address does not.
  const url = /^https?:\/\/[^/]/i.test(text) || !/^https?:/i.test(text) ? (URL.canParse(text) ? new URL(text) : null) : null;
  if (url === null) return noAddress(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return invalid("only http and https addresses can be used", "write https://…");
  }
  if (url.username !== "" || url.password !== "") {
    return invalid("an address must not contain a user name or a password", "remove it; the key belongs in api_key");
  }
  if (url.hash !== "" || text.includes("#")) return invalid("an address must not contain a #", "remove it and what follows");
  if (url.search !== "" || text.includes("?")) return invalid("an address must not contain a query", "remove the ? and what follows");
  if (url.port === "0") return invalid("port 0 cannot be connected to", "give the port of the upstream");
  if (isMetadata(url.hostname)) {
    return invalid(
      "this is the address of a cloud's metadata service or of a link-local network, which is never allowed",
      "give the address of the upstream itself",
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

function noAddress(text: string): AddressVerdict {
  const isBare = shownValue(text) !== null && /^[\w.-]+\.[\w-]+(?::\d+)?(?:\/|$)/.test(text);
  return invalid(
    `${subject(text)} is not the address of a server`,
    isBare ? `write https://${text}, or http:// if it has no TLS` : "write it as in https://api.example.com/v1",
  );
}

function invalid(reason: string, fix: string): AddressVerdict {
  return { ok: false, reason, fix };
}
