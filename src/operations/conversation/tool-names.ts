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
  const digest = fnv1a(full).toString(16).padStart(digestLength, "0");
  return `${full.replace(/[^\w-]/g, "_").slice(0, nameMax - digestLength - 1)}_${digest}`;
}

/** FNV-1a: tells the few names of one request apart that would be the same without it. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

const nameMax = 64;
const digestLength = 8;
const accepted = /^[A-Za-z0-9_-]{1,64}$/;
