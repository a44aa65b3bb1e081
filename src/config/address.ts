import { isMetadata, isNear } from "../channels/network.ts";

/** An upstream's address that may be dialled, or why not. */
export type AddressVerdict =
  | { readonly ok: true; readonly url: string; readonly host: string; readonly secure: boolean; readonly near: boolean }
  | { readonly ok: false; readonly reason: string; readonly mend: string };

/**
 * Checks an address that an operator wrote. Private and loopback hosts are welcome in a file: a local model server is
 * a normal upstream. The metadata services of clouds are not, in any spelling: nothing but credentials lives there.
 */
export function checkAddress(text: string): AddressVerdict {
  if (text.length > charactersMax || /[\s\\\p{Cc}]/u.test(text)) return refuse(shape.reason, shape.mend);
  // The parser forgives a missing slash; whoever takes the address apart does not.
  const url = /^https?:\/\/[^/]/i.test(text) || !/^https?:/i.test(text) ? (URL.canParse(text) ? new URL(text) : null) : null;
  if (url === null) return refuse(shape.reason, shape.mend);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return refuse("only http and https addresses can be used", "write https://…");
  }
  if (url.username !== "" || url.password !== "") {
    return refuse("an address must not hold a user name or a password", "take it out; a key belongs in api_key");
  }
  if (url.hash !== "" || text.includes("#")) return refuse("an address must not hold a #", "remove it and what follows");
  if (url.search !== "" || text.includes("?")) return refuse("an address must not hold a query", "remove the ? and what follows");
  if (url.port === "0") return refuse("port 0 cannot be dialled", "give the port of the upstream");
  if (isMetadata(url.hostname)) {
    return refuse(
      "this is the address of a cloud's metadata service or of a link-local network, which is never dialled",
      "give the address of the upstream itself",
    );
  }
  return {
    ok: true,
    url: text.replace(/\/+$/, ""),
    host: `${url.hostname}:${url.port === "" ? (url.protocol === "https:" ? 443 : 80) : url.port}`,
    secure: url.protocol === "https:",
    near: isNear(url.hostname),
  };
}

const charactersMax = 2048;
const shape = { reason: "this is not the address of a server", mend: "write it as in https://api.example.com/v1" };

function refuse(reason: string, mend: string): AddressVerdict {
  return { ok: false, reason, mend };
}
