import type { PassthroughOperation } from "../operations/operation.ts";

/** Every path of the data plane, and whether it needs a key: routing and authentication use the same table. */
export type HttpRoute =
  | {
      readonly name: CallRoute | "count_tokens" | "generate_count";
      readonly method: "POST";
      readonly access: "key";
      /** The model, where the path names it. */
      readonly model?: string;
    }
  | { readonly name: "models" | "audio_models" | "audio_voices" | "generate_models"; readonly method: "GET"; readonly access: "key" }
  | { readonly name: "model" | "generate_model"; readonly method: "GET"; readonly access: "key"; readonly id: string }
  | { readonly name: "root" | "healthz" | "readyz"; readonly method: "GET"; readonly access: "public" };

/** The routes that make a call. */
export type CallRoute =
  | "chat"
  | "messages"
  | "responses"
  | "generate"
  | "generate_stream"
  | "transcription"
  | "translation"
  | "speech"
  | "image_edit"
  | "image_variation"
  | PassthroughOperation;

export const fixed: ReadonlyMap<string, HttpRoute> = new Map<string, HttpRoute>([
  ["/v1/chat/completions", { name: "chat", method: "POST", access: "key" }],
  ["/v1/audio/transcriptions", { name: "transcription", method: "POST", access: "key" }],
  ["/v1/audio/translations", { name: "translation", method: "POST", access: "key" }],
  ["/v1/audio/speech", { name: "speech", method: "POST", access: "key" }],
  ["/v1/audio/models", { name: "audio_models", method: "GET", access: "key" }],
  ["/v1/audio/voices", { name: "audio_voices", method: "GET", access: "key" }],
  ["/v1/embeddings", { name: "embedding", method: "POST", access: "key" }],
  ["/v1/completions", { name: "completion", method: "POST", access: "key" }],
  ["/v1/moderations", { name: "moderation", method: "POST", access: "key" }],
  ["/v1/images/generations", { name: "image", method: "POST", access: "key" }],
  ["/v1/images/edits", { name: "image_edit", method: "POST", access: "key" }],
  ["/v1/images/variations", { name: "image_variation", method: "POST", access: "key" }],
  ["/v1/rerank", { name: "rerank", method: "POST", access: "key" }],
  ["/v1/models", { name: "models", method: "GET", access: "key" }],
  ["/v1/responses", { name: "responses", method: "POST", access: "key" }],
  ["/v1/messages", { name: "messages", method: "POST", access: "key" }],
  ["/v1/messages/count_tokens", { name: "count_tokens", method: "POST", access: "key" }],
  ["/v1beta/models", { name: "generate_models", method: "GET", access: "key" }],
  ["/", { name: "root", method: "GET", access: "public" }],
  ["/healthz", { name: "healthz", method: "GET", access: "public" }],
  ["/health", { name: "healthz", method: "GET", access: "public" }],
  ["/readyz", { name: "readyz", method: "GET", access: "public" }],
]);

const modelPrefix = "/v1/models/";
const generatePrefix = "/v1beta/models/";

/** The methods of a model, which stand in the path behind its name. */
const generateMethods = new Map([
  ["generateContent", "generate"],
  ["streamGenerateContent", "generate_stream"],
  ["countTokens", "generate_count"],
] as const);

/** The routes that an error message lists. */
export const servedRoutes: readonly string[] = [...fixed]
  .filter(([path]) => path !== "/health" && path !== "/")
  .flatMap(([path, { name, method }]) => {
    if (name === "models") return [`${method} ${path}`, `${method} ${modelPrefix}{model}`];
    if (name !== "generate_models") return [`${method} ${path}`];
    const methods = [...generateMethods.keys()].map((method) => `POST ${generatePrefix}{model}:${method}`);
    return [`${method} ${path}`, `${method} ${generatePrefix}{model}`, ...methods];
  });

/** What is wrong with the base URL of a client that requests this path, if that is evident. */
export function baseUrlMistake(path: string): string | null {
  const slashed = path.replaceAll(/\/{2,}/g, "/");
  if (routeOf(`/v1${slashed}`) !== null) return "The base URL of the client needs /v1 at its end.";
  const once = slashed.replace(/^\/v1(?:\/v1)+\//, "/v1/");
  if (once !== slashed && routeOf(once) !== null) return "The path has /v1 twice: leave it out of the base URL, or out of the path.";
  if (slashed !== path && slashed !== "/" && routeOf(slashed) !== null)
    return "The path has a slash too many: end the base URL without one.";
  return slashed.endsWith("/") && routeOf(slashed.slice(0, -1)) !== null ? "The path must not end with a slash." : null;
}

/** Looks up a path exactly as it was sent: without resolving dot segments, doubled slashes or case. */
export function routeOf(path: string): HttpRoute | null {
  const known = fixed.get(path);
  if (known !== undefined) return known;
  if (path.startsWith(deploymentApi)) return deploymentRouteOf(path.slice(deploymentApi.length));
  if (path.startsWith(generatePrefix)) return generateRouteOf(path.slice(generatePrefix.length));
  if (!path.startsWith(modelPrefix)) return null;
  // The newest Google Gen AI SDK for Python requests the stable version of that API by default: /v1/models/{model}:generateContent.
  const generate = generateRouteOf(path.slice(modelPrefix.length));
  if (generate?.method === "POST") return generate;
  const id = percentDecoded(path.slice(modelPrefix.length));
  return id === null || id === "" ? null : { name: "model", method: "GET", access: "key", id };
}

/** `{model}:{method}`, or the model alone. A name may have colons itself. */
function generateRouteOf(rest: string): HttpRoute | null {
  const colon = rest.lastIndexOf(":");
  const method = [...generateMethods].find(([word]) => colon !== -1 && word === rest.slice(colon + 1));
  const model = percentDecoded(method === undefined ? rest : rest.slice(0, colon));
  if (model === null || model === "") return null;
  return method === undefined
    ? { name: "generate_model", method: "GET", access: "key", id: model }
    : { name: method[1], method: "POST", access: "key", model };
}

const deploymentApi = "/openai/";
const deploymentPrefix = "deployments/";
/** What is served for a deployment. The longest that fits counts: one ends with another. */
const deploymentPaths = [
  "chat/completions",
  "completions",
  "embeddings",
  "images/generations",
  "images/edits",
  "images/variations",
  "audio/transcriptions",
  "audio/translations",
  "audio/speech",
];

/** The paths of the API with deployments as aliases of ours: `v1/…`, `deployments/{model}/…`, and the few that name no deployment. */
function deploymentRouteOf(rest: string): HttpRoute | null {
  if (rest.startsWith("v1/")) return routeOf(`/${rest}`);
  if (!rest.startsWith(deploymentPrefix)) return fixed.get(`/v1/${rest}`) ?? null;
  const path = deploymentPaths.find((one) => rest.endsWith(`/${one}`));
  const route = path === undefined ? undefined : fixed.get(`/v1/${path}`);
  if (path === undefined || route?.method !== "POST") return null;
  const model = percentDecoded(rest.slice(deploymentPrefix.length, -path.length - 1));
  return model === null || model === "" ? null : { ...route, model };
}

/** The path of a request target, which may be in absolute form (RFC 9112, 3.2.2), without the cost of parsing a URL. */
export function pathOf(target: string): string {
  const from = pathAt(target);
  const question = target.indexOf("?", from);
  return question < 0 ? target.slice(from) : target.slice(from, question);
}

/** The part after the first question mark of a target; empty if there is none. */
export function queryOf(target: string): string {
  const question = target.indexOf("?", pathAt(target));
  return question < 0 ? "" : target.slice(question + 1);
}

function pathAt(target: string): number {
  return target.startsWith("/") ? 0 : (/^https?:\/\/[^/?#]*/i.exec(target)?.[0].length ?? 0);
}

function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
