/**
 * An upstream of the Messages API that signs its reasoning, calls a tool until it was called four times, and refuses a history in which a
 * thought or its signature is not what it sent.
 */
export class SigningUpstream {
  /** Why requests were refused. */
  readonly complaints: string[] = [];
  readonly bodies: string[] = [];
  /** Answers every request with an error. */
  broken = false;
  private readonly server: ReturnType<typeof Bun.serve>;

  constructor() {
    this.server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: (request) => this.answer(request) });
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}`;
  }

  forget(): void {
    this.complaints.length = 0;
    this.bodies.length = 0;
  }

  async close(): Promise<void> {
    await this.server.stop(true);
  }

  private async answer(request: Request): Promise<Response> {
    const text = await request.text();
    if (this.broken) return Response.json({ type: "error", error: { type: "api_error", message: "broken" } }, { status: 500 });
    this.bodies.push(text);
    const { messages, stream } = JSON.parse(text) as MessagesBody;
    const answers = messages.filter(({ role }) => role === "assistant");
    const complaint = complaintOf(answers);
    if (complaint !== null) {
      this.complaints.push(complaint);
      return Response.json({ type: "error", error: { type: "invalid_request_error", message: complaint } }, { status: 400 });
    }
    const turn = answers.length + 1;
    const last =
      turn < 5 ? { type: "tool_use", id: `toolu_${turn}`, name: "look", input: { at: turn } } : { type: "text", text: "All seen." };
    const message = {
      ...{ id: "msg_1", type: "message", role: "assistant", model: "claude-sonnet-5", content: [thoughtOf(turn), last] },
      ...{ stop_reason: turn < 5 ? "tool_use" : "end_turn", stop_sequence: null, usage: { input_tokens: 10, output_tokens: 5 } },
    };
    return stream === true ? streamed(message) : Response.json(message);
  }
}

function streamed(message: { readonly content: readonly Block[]; readonly stop_reason: string }): Response {
  const events: { readonly type: string }[] = [];
  const add = (type: string, fields: object): void => void events.push({ type, ...fields });
  add("message_start", { message: { ...message, content: [], stop_reason: null } });
  for (const [index, block] of message.content.entries()) {
    const delta = (fields: object): void => add("content_block_delta", { index, delta: fields });
    if (block.type === "thinking") {
      const { thinking = "", signature } = block;
      add("content_block_start", { index, content_block: { ...block, thinking: "", signature: "" } });
      for (const piece of [thinking.slice(0, 5), thinking.slice(5)]) delta({ type: "thinking_delta", thinking: piece });
      delta({ type: "signature_delta", signature });
    } else if (block.type === "tool_use") {
      add("content_block_start", { index, content_block: { ...block, input: {} } });
      delta({ type: "input_json_delta", partial_json: JSON.stringify(block.input) });
    } else {
      add("content_block_start", { index, content_block: { ...block, text: "" } });
      delta({ type: "text_delta", text: block.text });
    }
    add("content_block_stop", { index });
  }
  add("message_delta", { delta: { stop_reason: message.stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } });
  add("message_stop", {});
  const frames = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  return new Response(frames.join(""), { headers: { "content-type": "text/event-stream" } });
}

function complaintOf(answers: readonly Message[]): string | null {
  for (const [index, { content }] of answers.entries()) {
    const thought = content.find(({ type }) => type === "thinking");
    const { thinking, signature } = thoughtOf(index + 1);
    if (thought?.thinking === thinking && thought.signature === signature) continue;
    return `messages.${index}: Invalid \`signature\` in \`thinking\` block: ${JSON.stringify(thought)}`;
  }
  return null;
}

function thoughtOf(turn: number): Block & { readonly thinking: string; readonly signature: string } {
  return { type: "thinking", thinking: `In turn ${turn}:\n  "ö", so`, signature: `Eq${turn}+/signed==` };
}

interface MessagesBody {
  readonly messages: readonly Message[];
  readonly stream?: boolean;
}

interface Message {
  readonly role: string;
  readonly content: readonly Block[];
}

interface Block {
  readonly type: string;
  readonly thinking?: string;
  readonly signature?: string;
  readonly text?: string;
  readonly input?: unknown;
}
