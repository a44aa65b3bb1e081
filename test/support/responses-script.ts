/** What an upstream of the Responses API answers: its items, as a response and as the events of a stream. */

export type ScriptedItem = Readonly<Record<string, unknown>> & { readonly type: string };

export const responseUsage = {
  input_tokens: 40,
  input_tokens_details: { cached_tokens: 30, cache_write_tokens: 4 },
  output_tokens: 12,
  output_tokens_details: { reasoning_tokens: 5 },
  total_tokens: 52,
};

export function message(text: string): ScriptedItem {
  return {
    id: "msg_1",
    type: "message",
    status: "completed",
    role: "assistant",
    content: [{ type: "output_text", text, annotations: [], logprobs: [] }],
  };
}

export function refusal(text: string): ScriptedItem {
  return { id: "msg_1", type: "message", status: "completed", role: "assistant", content: [{ type: "refusal", refusal: text }] };
}

export function reasoning(encrypted: string | null, ...summary: readonly string[]): ScriptedItem {
  const item = { id: "rs_1", type: "reasoning", summary: summary.map((text) => ({ type: "summary_text", text })) };
  return encrypted === null ? item : { ...item, encrypted_content: encrypted };
}

export function functionCall(id: string, name: string, args: string, namespace?: string): ScriptedItem {
  const within = namespace === undefined ? undefined : { namespace };
  return { id: `fc_${id}`, type: "function_call", status: "completed", call_id: id, name, ...within, arguments: args };
}

export function customCall(id: string, name: string, input: string): ScriptedItem {
  return { id: `ctc_${id}`, type: "custom_tool_call", status: "completed", call_id: id, name, input };
}

type Event = Readonly<Record<string, unknown>> & { readonly type: string };

export function response(items: readonly ScriptedItem[], more: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
  return {
    id: "resp_1",
    object: "response",
    created_at: 1_790_000_000,
    status: "completed",
    error: null,
    incomplete_details: null,
    model: "served-model",
    output: items,
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    usage: responseUsage,
    ...more,
  };
}

/** The events of a response. Texts come in pieces of three characters. `last`: the end, where it is another than completion. */
export function responseEvents(items: readonly ScriptedItem[], last: Readonly<Record<string, unknown>> = {}): readonly Event[] {
  const begun = response([], { status: "in_progress", usage: null });
  const end = response(items, last);
  const events: Event[] = [
    { type: "response.created", response: begun },
    { type: "response.in_progress", response: begun },
    ...items.flatMap((item, index) => itemEvents(item, index)),
    { type: `response.${String(end["status"])}`, response: end },
  ];
  return events.map((event, at) => ({ ...event, sequence_number: at }));
}

function itemEvents(item: ScriptedItem, index: number): readonly Event[] {
  const place = { item_id: item["id"], output_index: index };
  const { encrypted_content: _, ...shown } = item;
  const bare = { ...shown, status: "in_progress", ...emptied(item) };
  return [
    { type: "response.output_item.added", output_index: index, item: bare },
    ...insideEvents(item, place),
    { type: "response.output_item.done", output_index: index, item },
  ];
}

function emptied({ type }: ScriptedItem): Readonly<Record<string, unknown>> {
  if (type === "message") return { content: [] };
  if (type === "reasoning") return { summary: [] };
  return type === "custom_tool_call" ? { input: "" } : { arguments: "" };
}

function insideEvents(item: ScriptedItem, place: Readonly<Record<string, unknown>>): readonly Event[] {
  switch (item.type) {
    case "message":
      return (item["content"] as readonly { readonly text?: string; readonly refusal?: string }[]).flatMap(
        ({ text, refusal: refused }, at) => {
          const kind = text === undefined ? "refusal" : "output_text";
          const where = { ...place, content_index: at };
          return [
            { type: "response.content_part.added", ...where, part: partOf(kind, "") },
            ...pieces(text ?? refused ?? "").map((delta) => ({ type: `response.${kind}.delta`, ...where, delta })),
            { type: `response.${kind}.done`, ...where, ...(text === undefined ? { refusal: refused } : { text }) },
            { type: "response.content_part.done", ...where, part: partOf(kind, text ?? refused ?? "") },
          ];
        },
      );
    case "reasoning":
      return (item["summary"] as readonly { readonly text: string }[]).flatMap(({ text }, at) => {
        const where = { ...place, summary_index: at };
        return [
          { type: "response.reasoning_summary_part.added", ...where, part: { type: "summary_text", text: "" } },
          ...pieces(text).map((delta) => ({ type: "response.reasoning_summary_text.delta", ...where, delta })),
          { type: "response.reasoning_summary_text.done", ...where, text },
        ];
      });
    case "function_call":
      return pieces(String(item["arguments"])).map((delta) => ({ type: "response.function_call_arguments.delta", ...place, delta }));
    case "custom_tool_call":
      return pieces(String(item["input"])).map((delta) => ({ type: "response.custom_tool_call_input.delta", ...place, delta }));
    default:
      return [];
  }
}

function partOf(type: string, text: string): Readonly<Record<string, unknown>> {
  return type === "refusal" ? { type, refusal: text } : { type, text, annotations: [], logprobs: [] };
}

function pieces(text: string): readonly string[] {
  return text.match(/[\s\S]{1,3}/gu) ?? [];
}

export function eventStream(events: readonly Event[]): string {
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
}
