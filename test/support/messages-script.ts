/** What an upstream of the Messages API answers: its blocks, as a message and as the events of a stream. */

export type ScriptedBlock = Readonly<Record<string, unknown>> & { readonly type: string };
type Event = Readonly<Record<string, unknown>> & { readonly type: string };
type Fields = Readonly<Record<string, unknown>>;

const usage = {
  input_tokens: 10,
  cache_creation_input_tokens: 20,
  cache_read_input_tokens: 30,
  cache_creation: { ephemeral_5m_input_tokens: 5, ephemeral_1h_input_tokens: 15 },
  output_tokens: 12,
  service_tier: "standard",
};

export function text(value: string): ScriptedBlock {
  return { type: "text", text: value };
}

export function thinking(value: string, signature: string): ScriptedBlock {
  return { type: "thinking", thinking: value, signature };
}

export function redacted(data: string): ScriptedBlock {
  return { type: "redacted_thinking", data };
}

export function toolUse(id: string, name: string, input: Fields): ScriptedBlock {
  return { type: "tool_use", id, name, input };
}

/** Ended by a call where there is one. */
export function scriptedMessage(blocks: readonly ScriptedBlock[], more: Fields = {}): Fields {
  const stop_reason = blocks.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn";
  return {
    id: "msg_of_the_upstream",
    type: "message",
    role: "assistant",
    model: "claude-that-served",
    content: blocks,
    stop_reason,
    stop_sequence: null,
    usage,
    ...more,
  };
}

export function messageEvents(blocks: readonly ScriptedBlock[], more: Fields = {}): readonly Event[] {
  const { stop_reason, stop_sequence, stop_details, ...message } = scriptedMessage(blocks, more);
  const begun = { ...message, content: [], stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 1 } };
  return [
    { type: "message_start", message: begun },
    { type: "ping" },
    ...blocks.flatMap(blockEvents),
    {
      type: "message_delta",
      delta: { stop_reason, stop_sequence, ...(stop_details === undefined ? undefined : { stop_details }) },
      usage: { output_tokens: usage.output_tokens },
    },
    { type: "message_stop" },
  ];
}

function blockEvents(block: ScriptedBlock, index: number): readonly Event[] {
  const start = (content_block: Fields): Event => ({ type: "content_block_start", index, content_block });
  const deltas = (...all: readonly Fields[]): readonly Event[] => all.map((delta) => ({ type: "content_block_delta", index, delta }));
  const stop: Event = { type: "content_block_stop", index };
  switch (block.type) {
    case "text":
      return [start({ ...block, text: "" }), ...halves(block["text"]).flatMap((half) => deltas({ type: "text_delta", text: half })), stop];
    case "thinking":
      return [
        start({ ...block, thinking: "", signature: "" }),
        ...halves(block["thinking"]).flatMap((half) => deltas({ type: "thinking_delta", thinking: half })),
        ...deltas({ type: "signature_delta", signature: block["signature"] }),
        stop,
      ];
    case "tool_use": {
      const pieces = ["", ...halves(JSON.stringify(block["input"]))];
      return [
        start({ ...block, input: {} }),
        ...pieces.flatMap((partial_json) => deltas({ type: "input_json_delta", partial_json })),
        stop,
      ];
    }
    default:
      return [start(block), stop];
  }
}

function halves(value: unknown): readonly string[] {
  const whole = Array.from(String(value));
  const at = Math.ceil(whole.length / 2);
  return [whole.slice(0, at).join(""), whole.slice(at).join("")];
}

export function messageStream(events: readonly Event[]): string {
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
}
