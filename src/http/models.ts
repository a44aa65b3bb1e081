import type { Snapshot } from "../gateway/snapshot.ts";
import { allowsModel } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import { errorResponse } from "./errors.ts";
import { unknownModel } from "./refusals.ts";

/** What the calling key may use, and nothing else. */
export function listModels(snapshot: Snapshot, key: Key, headers: Headers): Response {
  const data = [...snapshot.routes.keys()].filter((model) => allowsModel(key, model)).map((model) => entry(snapshot, model));
  return Response.json({ object: "list", data }, { headers });
}

/** A model the key may not use is answered as one that does not exist. */
export function showModel(snapshot: Snapshot, key: Key, id: string, requestId: string, headers: Headers): Response {
  if (!snapshot.routes.has(id) || !allowsModel(key, id)) return errorResponse(unknownModel(id), { requestId, headers });
  return Response.json(entry(snapshot, id), { headers });
}

function entry(snapshot: Snapshot, id: string): object {
  const first = snapshot.routes.get(id)?.tiers[0]?.[0]?.deployment;
  const owner = snapshot.service.exposeChannels ? first?.channel.name : undefined;
  const description = first?.channel.capabilities.modelDescriptions.get(first.model);
  return { id, object: "model", created: 0, owned_by: owner ?? "sluice", ...(description === undefined ? undefined : { description }) };
}
