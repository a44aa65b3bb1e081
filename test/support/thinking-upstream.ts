/** A chat upstream that reasons in every turn, calls a tool until it was called four times, and insists on getting its reasoning back. */
export class ThinkingUpstream {
  /** Why requests were refused. */
  readonly complaints: string[] = [];
  readonly bodies: string[] = [];
  /** Answers every request with an error. */
  broken = false;
  /** Takes any history. */
  lenient = false;
  private readonly server: ReturnType<typeof Bun.serve>;

  constructor(private readonly name: string) {
    this.server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: (request) => this.answer(request) });
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}/v1`;
  }

  get received(): number {
    return this.bodies.length;
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
    if (this.broken) return Response.json({ error: { message: "broken" } }, { status: 500 });
    this.bodies.push(text);
    const { messages, stream, tools } = JSON.parse(text) as ChatBody;
    const answers = messages.filter(({ role }) => role === "assistant");
    const complaint = this.lenient ? null : this.complaintOf(answers);
    if (complaint !== null) {
      this.complaints.push(complaint);
      return Response.json({ error: { message: complaint, type: "invalid_request_error" } }, { status: 400 });
    }
    const turn = answers.length + 1;
    const calls = turn < 5 && tools !== undefined;
    const call = { index: 0, id: `call_${this.name}_${turn}`, type: "function", function: { name: "look", arguments: `{"at":${turn}}` } };
    const message = {
      role: "assistant",
      reasoning_content: this.thought(turn),
      content: calls ? null : "All seen.",
      ...(calls ? { tool_calls: [call] } : undefined),
    };
    const finish_reason = calls ? "tool_calls" : "stop";
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    if (stream !== true)
      return Response.json({ id: "c", object: "chat.completion", model: "m", choices: [{ index: 0, message, finish_reason }], usage });
    const { reasoning_content, ...rest } = message;
    const half = Math.ceil(reasoning_content.length / 2);
    const deltas = [
      { role: "assistant", reasoning_content: reasoning_content.slice(0, half) },
      { reasoning_content: reasoning_content.slice(half) },
      rest,
    ];
    const chunks = [
      ...deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] })),
      { choices: [{ index: 0, delta: {}, finish_reason }] },
      { choices: [], usage },
    ].map((chunk) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "m", ...chunk })}\n\n`);
    return new Response(`${chunks.join("")}data: [DONE]\n\n`, { headers: { "content-type": "text/event-stream" } });
  }

  /** Answers of another upstream, whose calls have another name, have none of our reasoning. */
  private complaintOf(answers: readonly ChatMessage[]): string | null {
    for (const [index, { reasoning_content, tool_calls }] of answers.entries()) {
      const isOwn = tool_calls?.[0]?.id.includes(this.name) === true;
      const expected = isOwn ? this.thought(index + 1) : undefined;
      if (reasoning_content !== expected) return `answer ${index + 1} came back with ${JSON.stringify(reasoning_content)}`;
    }
    return null;
  }

  private thought(turn: number): string {
    return `${this.name} thinks in turn ${turn}:\n  "ä" and then\n`;
  }
}

interface ChatBody {
  readonly messages: readonly ChatMessage[];
  readonly stream?: boolean;
  readonly tools?: readonly unknown[];
}

interface ChatMessage {
  readonly role: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
}
