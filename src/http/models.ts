import type { Candidate, Route } from "../channels/channel.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { allowsModel } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import { operationsNamed } from "../operations/named-operation.ts";
import { operations, type Operation } from "../operations/operation.ts";
import { boundTo } from "../routing/bound.ts";
import { errorAnswer } from "./errors.ts";
import type { AnswerHead, HttpAnswer } from "./http-answer.ts";
import { unknownModel } from "./refusals.ts";

/** What the calling key may use, and nothing else. */
export function listModels(snapshot: Snapshot, key: Key, head: AnswerHead): HttpAnswer {
  const data = [...snapshot.routes].flatMap(([model, route]) => {
    const usable = usableBy(key, route);
    return usable === null ? [] : [entry(snapshot, key, model, usable)];
  });
  return jsonAnswer({ object: "list", data }, head);
}

/** A model the key may not use is answered as one that does not exist. One that is in no list may be served all the same. */
export function showModel(snapshot: Snapshot, key: Key, id: string, head: AnswerHead): HttpAnswer {
  const route = snapshot.routes.get(id) ?? (allowsModel(key, id) ? snapshot.wildcard?.(id) : null) ?? null;
  const usable = route === null ? null : usableBy(key, route);
  if (usable === null) return errorAnswer(unknownModel(id), head);
  return jsonAnswer(entry(snapshot, key, id, usable), head);
}

function jsonAnswer(value: object, head: AnswerHead): HttpAnswer {
  head.type = "application/json;charset=utf-8";
  return { status: 200, head, body: JSON.stringify(value) };
}

/** What a model can do here, of what its channel does. */
function operationsOf({ deployment: { channel, model } }: Candidate): readonly Operation[] {
  const { modelOperations, operations } = channel.capabilities;
  return modelOperations.get(model) ?? operationsNamed(model, operations, channel.provider !== null);
}

/** Who may serve the key under this name, of whom at least one does what the key is for; null where nobody is left. */
function usableBy(key: Key, route: Route): Route | null {
  if (!allowsModel(key, route.model)) return null;
  const bound = boundTo(route, key.channels);
  const { operations: allowed } = key;
  if (bound === null || allowed === null) return bound;
  const does = ({ deployment: { channel, model } }: Candidate): boolean =>
    (channel.capabilities.modelOperations.get(model) ?? channel.capabilities.operations).some((one) => allowed.includes(one));
  return bound.tiers.some((members) => members.some(does)) ? bound : null;
}

function entry({ service, offered }: Snapshot, key: Key, id: string, { tiers }: Route): object {
  const may = (one: Operation): boolean => key.operations === null || key.operations.includes(one);
  const named = new Set(tiers.flatMap((members) => members.flatMap(operationsOf)));
  // A name is a hint: it does not take from a key what its channels do.
  const does = [...named].some(may)
    ? named
    : new Set(tiers.flatMap((members) => members.flatMap(({ deployment }) => deployment.channel.capabilities.operations)));
  const first = tiers[0]?.[0]?.deployment;
  const owner = service.exposeChannels ? first?.channel.name : undefined;
  const description = first?.channel.capabilities.modelDescriptions.get(first.model);
  return {
    id,
    object: "model",
    created: Math.floor((offered?.sinceMs.get(id) ?? offered?.firstMs ?? 0) / 1000),
    owned_by: owner ?? "sluice",
    operations: operations.filter((one) => does.has(one) && may(one)),
    ...(description === undefined ? undefined : { description }),
  };
}
