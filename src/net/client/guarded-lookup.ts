import dns from "node:dns";
import net from "node:net";
import { isMetadataAddress, isPublicAddress } from "../../channels/network.ts";

/** Where a connection may lead: anywhere but to metadata services, or to the public internet only. */
export type Reach = "any" | "public";

/** Why an address may not be dialled, or null. */
export function barredAddress(address: string, reach: Reach): string | null {
  if (isMetadataAddress(address)) return "the address of a metadata service or of a link-local network";
  return reach === "public" && !isPublicAddress(address) ? "not an address of the public internet" : null;
}

/**
 * Resolves a name for a connection and lets it through only if every address it has is allowed: the very answer that was checked
 * is dialled, so a name that changes its mind between a check and the connection gains nothing.
 */
export function guardedLookup(reach: Reach): net.LookupFunction {
  return (hostname, options, callback) => {
    dns.lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, []);
      for (const { address } of addresses) {
        const barred = barredAddress(address, reach);
        if (barred !== null) return callback(new BarredAddress(`${hostname} leads to ${barred}`), []);
      }
      return options.all === true ? callback(null, addresses) : callback(null, addresses[0]?.address ?? "", addresses[0]?.family);
    });
  };
}

/** Marks a refusal of our own among the errors of connections. */
export class BarredAddress extends Error {
  readonly code = "EBARRED";
}
