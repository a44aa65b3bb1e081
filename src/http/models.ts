import type { Candidate, Route } from "../channels/channel.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { allowsModel } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import { operations, operationsNamed, type Operation } from "../operations/operation.ts";
import { boundTo } from "../routing/bound.ts";
import { errorResponse } from "./errors.ts";
import type { ResponseHead, HttpResponse } from "../net/server/http-response.ts";
import { unknownModel } from "./request-errors.ts";

/** What the calling key may use, and nothing else. */
export function listModels(snapshot: Snapshot, key: Key, head: ResponseHead): HttpResponse {
  const data = [...snapshot.routes].flatMap(([model, route]) => {
    const usable = usableBy(key, route);
    return usable === null ? [] : [entry(snapshot, key, model, usable)];
  });
  return jsonAnswer({ object: "list", data }, head);
}

/** A model the key may not use is answered as one that does not exist. One that is in no list may be served all the same. */
export function showModel(snapshot: Snapshot, key: Key, id: string, head: ResponseHead): HttpResponse {
  const route = snapshot.routes.get(id) ?? (allowsModel(key, id) ? snapshot.wildcard?.(id) : null) ?? null;
  const usable = route === null ? null : usableBy(key, route);
  if (usable === null) return errorResponse(unknownModel(id), head);
  return jsonAnswer(entry(snapshot, key, id, usable), head);
}

function jsonAnswer(value: object, head: ResponseHead): HttpResponse {
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

/**
 * What the channels of a route do, by the names of their models and without. Worked out once for each configuration: made anew for
 * every model of every list, it cost a hundred times what a call to /healthz does (S20 of test/security/amplification.test.ts).
 */
interface RouteOperations {
  readonly named: readonly Operation[];
  readonly all: readonly Operation[];
}

const known = new WeakMap<Route, RouteOperations>();

function routeOperations(route: Route): RouteOperations {
  let found = known.get(route);
  if (found === undefined) {
    const members = route.tiers.flat();
    const named = new Set(members.flatMap(operationsOf));
    const all = new Set(members.flatMap(({ deployment }) => deployment.channel.capabilities.operations));
    const inOrder = (some: ReadonlySet<Operation>): readonly Operation[] => operations.filter((one) => some.has(one));
    known.set(route, (found = { named: inOrder(named), all: inOrder(all) }));
  }
  return found;
}

/** A name is a hint: it does not take from a key what its channels do. */
function operationsFor({ operations: allowed }: Key, { named, all }: RouteOperations): readonly Operation[] {
  if (allowed === null) return named.length > 0 ? named : all;
  const may = named.filter((one) => allowed.includes(one));
  return may.length > 0 ? may : all.filter((one) => allowed.includes(one));
}

function entry({ service, modelTimes }: Snapshot, key: Key, id: string, route: Route): object {
  const first = route.tiers[0]?.[0]?.deployment;
  const owner = service.exposeChannels ? first?.channel.name : undefined;
  const description = first?.channel.capabilities.modelDescriptions.get(first.model);
  return {
    id,
    object: "model",
    created: Math.floor((modelTimes?.sinceMs.get(id) ?? modelTimes?.firstMs ?? 0) / 1000),
    owned_by: owner ?? "sluice",
    operations: operationsFor(key, routeOperations(route)),
    ...(description === undefined ? undefined : { description }),
  };
}
