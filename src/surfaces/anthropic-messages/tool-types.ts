/**
 * Whether a tool of this type is run by the client: one with a schema of its own, or one whose schema the model knows (a shell, an
 * editor, a memory, a screen). All others act at the upstream: searches, code execution, advisors, MCP servers.
 */
export function runsAtClient(type: string): boolean {
  return type === "custom" || clientTools.test(type);
}

const clientTools = /^(?:bash|text_editor|memory|computer|computer_toolset|browser_toolset)_\d{8}$/;
