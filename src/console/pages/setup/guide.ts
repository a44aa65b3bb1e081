/** One client in the guide, with what has to be typed or written to use it. */
export interface ClientGuide {
  readonly name: string;
  readonly blocks: readonly GuideBlock[];
}

export interface GuideBlock {
  /** A file, or a shell. */
  readonly title: string;
  readonly text: string;
}

/**
 * The clients of docs/guides/clients.md: each heading with a block of code below it. The examples of that page are run by the tests, so
 * that what the console shows is what works.
 */
export function clientsOf(guide: string): readonly ClientGuide[] {
  const clients: { readonly name: string; readonly blocks: GuideBlock[] }[] = [];
  let name = "";
  let block: { readonly title: string; readonly lines: string[] } | null = null;
  for (const line of guide.split("\n")) {
    if (block !== null) {
      if (line.startsWith("```")) {
        const text = block.lines.join("\n");
        const client = clients.find((one) => one.name === name);
        if (client === undefined) clients.push({ name, blocks: [{ title: block.title, text }] });
        else client.blocks.push({ title: block.title, text });
        block = null;
      } else block.lines.push(line);
      continue;
    }
    const [, heading] = /^##+ (.+)$/.exec(line) ?? [];
    if (heading !== undefined) name = heading.replaceAll("`", "");
    const [, language, title] = /^```(\w+)(?: title="([^"]+)")?/.exec(line) ?? [];
    if (language !== undefined && language !== "text") block = { title: title ?? (language === "sh" ? "Shell" : language), lines: [] };
  }
  return clients.filter((client) => client.name !== "");
}

export interface GuideValues {
  /** Without a path, such as `http://127.0.0.1:4400`. */
  readonly address: string;
  readonly key: string;
  readonly model: string;
}

/** A block with your values in place of those of the guide. */
export function filledIn(text: string, { address, key, model }: GuideValues): string {
  return text
    .replaceAll("http://127.0.0.1:4400", address)
    .replaceAll("http://host.docker.internal:4400", address.replace(/\/\/(?:127\.0\.0\.1|localhost)(?=[:/]|$)/, "//host.docker.internal"))
    .replaceAll("sk-your-key", key === "" ? "sk-your-key" : key)
    .replaceAll("your-model", model === "" ? "your-model" : model);
}

/** Most clients chat: a model whose name says that it hears or speaks would only give them an error. */
export function likelyChatModel(models: readonly string[]): string {
  return models.find((name) => !otherModel.test(name)) ?? models[0] ?? "";
}

const otherModel = /whisper|transcri|speech|tts|flite|kokoro|embedding|moderation|rerank|image/i;
