import dns from "node:dns";
import net from "node:net";
import { isMetadataAddress, isPublicAddress } from "../../channels/network.ts";

/**
 * Which addresses a connection may be opened to: all but metadata services, or only those of the public internet; or only metadata
 * services, for the gateway's own requests for the identity of its machine. No channel has that reach.
 */
export type Reach = "any" | "public" | "metadata";

/** Why connections to an address are not allowed; null if they are. */
export function blockedAddress(address: string, reach: Reach): string | null {
  if (reach === "metadata") return isMetadataAddress(address) ? null : "not the address of a metadata service";
  if (isMetadataAddress(address)) return "the address of a metadata service or of a link-local network";
  return reach === "public" && !isPublicAddress(address) ? "not an address of the public internet" : null;
}

/**
 * Resolves a name, and passes it only if all its addresses are allowed. The connection is opened to the addresses that were
 * checked, so a name that changes between check and use (DNS rebinding) gains nothing.
 */
export function guardedLookup(reach: Reach): net.LookupFunction {
  return (hostname, options, callback) => {
    dns.lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, []);
      for (const { address } of addresses) {
        const blocked = blockedAddress(address, reach);
        if (blocked !== null) return callback(new BlockedAddress(`${hostname} leads to ${blocked}`), []);
      }
      return options.all === true ? callback(null, addresses) : callback(null, addresses[0]?.address ?? "", addresses[0]?.family);
    });
  };
}

/** Marks our own rejection among the errors of connections. */
export class BlockedAddress extends Error {
  readonly code = "EBARRED";
}
