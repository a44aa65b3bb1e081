/** What the form of a chat says. */
export interface ChatForm {
  readonly system: string;
  readonly prompt: string;
  /** As `data:` addresses. */
  readonly images: readonly string[];
  /** JSON: the tools that the model may call. */
  readonly tools: string;
  /** JSON: the schema that its answer must have. */
  readonly schema: string;
}

export type PlayedRequest = Readonly<Record<string, unknown>> & { readonly model: string };

/** The request of a chat, or which field is not the JSON that it has to be. */
export function chatRequest(model: string, form: ChatForm): PlayedRequest | { readonly mistake: string } {
  const tools = form.tools.trim() === "" ? null : parsed(form.tools);
  if (tools !== null && !Array.isArray(tools)) return { mistake: "Tools must be a JSON list, as clients send it." };
  const schema = form.schema.trim() === "" ? null : parsed(form.schema);
  if (schema !== null && (typeof schema !== "object" || Array.isArray(schema))) return { mistake: "The schema must be a JSON object." };
  const content =
    form.images.length === 0
      ? form.prompt
      : [{ type: "text", text: form.prompt }, ...form.images.map((url) => ({ type: "image_url", image_url: { url } }))];
  return {
    model,
    stream: true,
    stream_options: { include_usage: true },
    messages: [...(form.system === "" ? [] : [{ role: "system", content: form.system }]), { role: "user", content }],
    ...(tools === null ? {} : { tools }),
    ...(schema === null ? {} : { response_format: { type: "json_schema", json_schema: { name: "answer", strict: true, schema } } }),
  };
}

/** What is shown as code: an image of megabytes is of no use there. */
export function shownRequest(request: PlayedRequest): PlayedRequest {
  const shown = JSON.stringify(request, (name, value: unknown) =>
    name === "url" && typeof value === "string" && value.length > urlCharactersMax ? `${value.slice(0, urlCharactersMax)}…` : value,
  );
  return JSON.parse(shown) as PlayedRequest;
}

const urlCharactersMax = 60;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return "not JSON";
  }
}
