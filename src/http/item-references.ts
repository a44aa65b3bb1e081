import type { Key } from "../keys/key.ts";
import type { FoundItems } from "../operations/conversation/kept-items.ts";
import type { Surface } from "../operations/conversation/surface.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { ParsedRequest } from "./call.ts";
import type { RequestContext } from "./request-context.ts";
import { bodyTooLarge, noRoomForBody } from "./request-errors.ts";

/**
 * The request as if its client had sent the items of earlier answers that it refers to. From here on nobody has to know about references,
 * whichever API the upstream speaks. Those that are not known stay, for an upstream that may know them.
 */
export function withReferredItems(
  parsed: ParsedRequest | Failure,
  surface: Surface,
  { snapshot, services }: RequestContext,
  key: Key,
): ParsedRequest | Failure | Promise<ParsedRequest | Failure> {
  const { references } = surface;
  const { items } = services.gateway.ports;
  const { keepItemsMs, bodyBytesMax } = snapshot.service;
  if (references === undefined || items === undefined || keepItemsMs === 0) return parsed;
  if (isFailure(parsed) || parsed.ask.operation !== "chat") return parsed;
  const { ask } = parsed;
  const ids = references.idsIn(ask);
  if (ids.length === 0) return parsed;
  const resolve = (found: FoundItems): ParsedRequest | Failure => {
    if (found.size === 0) return parsed;
    const more = ids.reduce((sum, id) => sum + (found.get(id)?.length ?? 0), 0);
    if (ask.body.length + more > bodyBytesMax) return bodyTooLarge(bodyBytesMax);
    if (!services.hasRoom(ask.body.length + more)) return noRoomForBody;
    const resolved = surface.parse(references.resolved(ask, found));
    return isFailure(resolved) ? resolved : { ...parsed, ask: resolved };
  };
  const found = items.find(key.id, [...new Set(ids)], keepItemsMs);
  return found instanceof Promise ? found.then(resolve) : resolve(found);
}
