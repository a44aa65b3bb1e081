import { modelOperationsOf, type Candidate, type Route } from "../channels/channel.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { allowsModel } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import { operations, operationsNamed, type Operation } from "../operations/operation.ts";
import type { ErrorFormat } from "../operations/conversation/surface.ts";
import { isFailure } from "../operations/failure.ts";
import { generateAnswers, messagesSurface, modelBody, modelInfoBody, modelListBody, modelsBody } from "../surfaces/index.ts";
import { errorResponse } from "./errors.ts";
import type { ResponseHead, HttpResponse } from "../net/server/http-response.ts";
import type { RequestContext } from "./request-context.ts";
import { unknownModel } from "./request-errors.ts";
import { boundTo } from "../routing/eligible.ts";

/** Lists the models that the calling key may use, and no others. */
export function listModels(snapshot: Snapshot, key: Key, head: ResponseHead, errors: ErrorFormat, query: string): HttpResponse {
  if (errors === messagesSurface) return listForMessages(snapshot, key, head, query);
  const data = [...snapshot.routes].flatMap(([model, route]) => {
    const usable = usableBy(key, route);
    return usable === null ? [] : [entry(snapshot, key, model, usable)];
  });
  // A client that sends its version reads a catalogue of its own form. Without one it fails; with an empty one it uses what it knows.
  const catalogue = new URLSearchParams(query).has("client_version") ? { models: [] } : undefined;
  return jsonAnswer({ object: "list", data, ...catalogue }, head);
}

/** What of a key decides which models it sees. */
export type ModelScope = Pick<Key, "models" | "operations" | "channels">;

/** The models that the key may use for an operation, as far as is known what they are for. */
export function modelsFor(operation: Operation, snapshot: Snapshot, key: ModelScope): readonly (readonly [id: string, route: Route])[] {
  return [...snapshot.routes].flatMap(([id, route]) => {
    const usable = usableBy(key, route);
    return usable !== null && operationsFor(key, routeOperations(usable)).includes(operation) ? [[id, usable] as const] : [];
  });
}

/**
 * A model that the key may not use is reported as unknown. A model that is not in the list may still be served, by a wildcard.
 */
export function showModel({ snapshot, head, errors, services }: RequestContext, key: Key, id: string): HttpResponse {
  const route = snapshot.routes.get(id) ?? (allowsModel(key, id) ? snapshot.wildcard?.(id) : null) ?? null;
  const usable = route === null ? null : usableBy(key, route);
  if (usable === null) return errorResponse(unknownModel(id, services.gateway.ports.asTyped), head, null, errors);
  if (errors === messagesSurface) return jsonBody(modelBody({ id, displayName: null, createdSeconds: createdSeconds(snapshot, id) }), head);
  if (errors === generateAnswers) return jsonBody(modelInfoBody(id), head);
  return jsonAnswer(entry(snapshot, key, id, usable), head);
}

/** GET /v1beta/models. That API has other methods for other models, so the list has those for chats. */
export function listGenerateModels(snapshot: Snapshot, key: Key, head: ResponseHead, query: string): HttpResponse {
  const asked = new URLSearchParams(query);
  const ids = modelsFor("chat", snapshot, key).map(([id]) => id);
  const body = modelListBody(ids, { pageSize: asked.get("pageSize"), pageToken: asked.get("pageToken") });
  return isFailure(body) ? errorResponse(body, head, null, generateAnswers) : jsonBody(body, head);
}

/** The same list in the Messages API, which has pages. */
function listForMessages(snapshot: Snapshot, key: Key, head: ResponseHead, query: string): HttpResponse {
  const models = [...snapshot.routes]
    .filter(([, route]) => usableBy(key, route) !== null)
    .map(([id]) => ({ id, displayName: null, createdSeconds: createdSeconds(snapshot, id) }));
  const asked = new URLSearchParams(query);
  const body = modelsBody(models, { limit: asked.get("limit"), afterId: asked.get("after_id"), beforeId: asked.get("before_id") });
  return isFailure(body) ? errorResponse(body, head, null, messagesSurface) : jsonBody(body, head);
}

function jsonBody(body: Uint8Array, head: ResponseHead): HttpResponse {
  head.type = "application/json";
  return { status: 200, head, body };
}

export function jsonAnswer(value: object, head: ResponseHead): HttpResponse {
  head.type = "application/json;charset=utf-8";
  return { status: 200, head, body: JSON.stringify(value) };
}

/** What a model can do, according to its channel. */
function operationsOf({ deployment: { channel, model } }: Candidate): readonly Operation[] {
  return modelOperationsOf(channel, model) ?? operationsNamed(model, channel.capabilities.operations, channel.provider !== null);
}

/** The part of a route that the key may use and that supports at least one operation of the key; null if nothing is left. */
function usableBy(key: ModelScope, route: Route): Route | null {
  if (!allowsModel(key, route.model)) return null;
  const bound = boundTo(route, key.channels);
  const { operations: allowed } = key;
  if (bound === null || allowed === null) return bound;
  const does = ({ deployment: { channel, model } }: Candidate): boolean =>
    (modelOperationsOf(channel, model) ?? channel.capabilities.operations).some((one) => allowed.includes(one));
  return bound.tiers.some((members) => members.some(does)) ? bound : null;
}

/**
 * The operations of a route: those that the names of its models suggest, and all that its channels support. Computed once for
 * each configuration: computed for each model of each list, it cost a hundred times as much as a call to /healthz (S20 of
 * test/security/amplification.test.ts).
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

/** A model's name is a hint, and does not take an operation away that the channel supports. */
function operationsFor({ operations: allowed }: ModelScope, { named, all }: RouteOperations): readonly Operation[] {
  if (allowed === null) return named.length > 0 ? named : all;
  const may = named.filter((one) => allowed.includes(one));
  return may.length > 0 ? may : all.filter((one) => allowed.includes(one));
}

function createdSeconds({ modelTimes }: Snapshot, id: string): number {
  return Math.floor((modelTimes?.sinceMs.get(id) ?? modelTimes?.firstMs ?? 0) / 1000);
}

function entry(snapshot: Snapshot, key: Key, id: string, route: Route): object {
  const first = route.tiers[0]?.[0]?.deployment;
  const owner = snapshot.service.exposeChannels ? first?.channel.name : undefined;
  const description = first?.channel.capabilities.modelDescriptions.get(first.model);
  return {
    id,
    object: "model",
    created: createdSeconds(snapshot, id),
    owned_by: owner ?? "sluice",
    operations: operationsFor(key, routeOperations(route)),
    ...(description === undefined ? undefined : { description }),
  };
}
