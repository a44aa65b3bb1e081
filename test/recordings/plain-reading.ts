/** What an answer says, read in the simplest way that can be right: to compare with what the gateway makes of it. */
export interface PlainReading {
  readonly text: string;
  readonly calls: number;
}

type Json = Readonly<Record<string, unknown>>;

function list(value: unknown): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}

function object(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function counted(parts: readonly Json[], isCall: (part: Json) => boolean): PlainReading {
  return { text: parts.map((part) => text(part["text"])).join(""), calls: parts.filter(isCall).length };
}

/** By dialect: a whole answer, and the events of a stream. */
export const plainReadings: Readonly<Record<string, { whole(body: Json): PlainReading; events(events: readonly Json[]): PlainReading }>> = {
  anthropic: {
    whole: ({ content }) =>
      counted(
        list(content).filter(({ type }) => type === "text" || type === "tool_use"),
        ({ type }) => type === "tool_use",
      ),
    events: (events) =>
      counted(
        events.flatMap(({ type, delta, content_block: block }) => {
          if (type === "content_block_delta" && object(delta)["type"] === "text_delta") return [object(delta)];
          return type === "content_block_start" && ["text", "tool_use"].includes(text(object(block)["type"])) ? [object(block)] : [];
        }),
        ({ type }) => type === "tool_use",
      ),
  },
  openai: {
    whole: ({ choices }) => message(object(object(list(choices)[0])["message"])),
    events: (events) => {
      const deltas = events.flatMap(({ choices }) => list(choices).filter(({ index }) => index === 0)).map(({ delta }) => object(delta));
      const indexes = new Set(deltas.flatMap(({ tool_calls: calls }) => list(calls).map(({ index }) => index)));
      return { text: deltas.map(({ content }) => text(content)).join(""), calls: indexes.size };
    },
  },
  "openai-responses": {
    whole: response,
    events: (events) => response(object(events.findLast(({ response: last }) => last !== undefined)?.["response"])),
  },
  "bedrock-converse": {
    whole: ({ output }) => {
      const content = list(object(object(output)["message"])["content"]);
      const cited = content.flatMap((part) => [part, ...list(object(part["citationsContent"])["content"])]);
      return counted(cited, ({ toolUse }) => toolUse !== undefined);
    },
    events: (events) =>
      counted(
        events.map(({ delta, start }) => ({ ...object(start), ...object(delta), toolUse: object(start)["toolUse"] })),
        ({ toolUse }) => toolUse !== undefined,
      ),
  },
  cohere: {
    whole: ({ message: said }) => {
      const { content, tool_calls: calls } = object(said);
      return { text: counted(list(content), () => false).text, calls: list(calls).length };
    },
    events: (events) => ({
      text: events.map(({ delta }) => text(object(object(object(delta)["message"])["content"])["text"])).join(""),
      calls: events.filter(({ type }) => type === "tool-call-start").length,
    }),
  },
  gemini: {
    whole: ({ candidates }) =>
      counted(
        list(object(object(list(candidates)[0])["content"])["parts"]).filter(({ thought }) => thought !== true),
        ({ functionCall }) => functionCall !== undefined,
      ),
    events: () => ({ text: "", calls: 0 }),
  },
};

function message({ content, tool_calls: calls, function_call: call }: Json): PlainReading {
  return { text: text(content), calls: list(calls).length + (call == null ? 0 : 1) };
}

function response({ output }: Json): PlainReading {
  const items = list(output);
  return {
    text: items
      .flatMap(({ type, content }) => (type === "message" ? list(content) : []))
      .map((part) => text(part["text"]))
      .join(""),
    calls: items.filter(({ type }) => type === "function_call" || type === "custom_tool_call").length,
  };
}

/** The payloads of server-sent events. */
export function sentEvents(body: Uint8Array): readonly Json[] {
  const lines = new TextDecoder().decode(body).split(/\r?\n/);
  return lines.flatMap((line) => (line.startsWith("data:") && line.includes("{") ? [JSON.parse(line.slice("data:".length)) as Json] : []));
}

/** The payloads of frames of `application/vnd.amazon.eventstream`: a length, the length of the headers, and a sum before and after. */
export function framedEvents(body: Uint8Array): readonly Json[] {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  const events: Json[] = [];
  for (let at = 0; at < body.length; at += view.getUint32(at)) {
    const payload = body.subarray(at + 12 + view.getUint32(at + 4), at + view.getUint32(at) - 4);
    events.push(JSON.parse(new TextDecoder().decode(payload)) as Json);
  }
  return events;
}
