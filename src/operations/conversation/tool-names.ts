import { createHash } from "node:crypto";
import type { Tool } from "./conversation.ts";

/**
 * The names of tools as most APIs accept them: letters, digits, `_` and `-`, at most 64 of them, without namespaces. A name depends on
 * the tool alone, so that a conversation encodes to the same bytes whichever tools are declared beside it.
 */
export class ToolNames {
  private readonly tools = new Map<string, Tool>();

  constructor(tools: readonly Tool[]) {
    for (const tool of tools) this.tools.set(wireName(tool), tool);
  }

  /** The tool that an upstream called; null if none of that name was declared. */
  toolOf(name: string): Tool | null {
    return this.tools.get(name) ?? null;
  }
}

export function wireName({ name, namespace }: Pick<Tool, "name" | "namespace">): string {
  const full = namespace === undefined ? name : `${namespace}__${name}`;
  if (accepted.test(full)) return full;
  const digest = createHash("sha256").update(full).digest("hex").slice(0, digestLength);
  return `${full.replace(/[^\w-]/g, "_").slice(0, nameMax - digestLength - 1)}_${digest}`;
}

const nameMax = 64;
const digestLength = 8;
const accepted = /^[A-Za-z0-9_-]{1,64}$/;
