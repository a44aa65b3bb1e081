import type { DeclaredTool, Step, ToolCall } from "./scripted-model.ts";

/** The steps of the task, each with whichever tool the program has for it. All paths are within the folder of the task. */
export function taskSteps(folder: string): readonly Step[] {
  return [
    reading(folder, "notes.txt"),
    editing(folder, "notes.txt", "colour = red", "colour = blue"),
    running("cat notes.txt > copy.txt; cat copy.txt"),
  ];
}

function reading(folder: string, file: string): Step {
  const path = `${folder}/${file}`;
  return (tools) =>
    call(tools, ["file_path", "offset"], { file_path: path }) ??
    call(tools, ["filePath", "offset"], { filePath: path }) ??
    named(tools, "read_file", { file_path: path }) ??
    running(`cat ${file}`)(tools);
}

function editing(folder: string, file: string, before: string, after: string): Step {
  const path = `${folder}/${file}`;
  const change = { file_path: path, old_string: before, new_string: after };
  const patch = `*** Begin Patch\n*** Update File: ${file}\n@@\n-${before}\n+${after}\n*** End Patch`;
  return (tools) =>
    call(tools, ["file_path", "old_string", "new_string", "instruction"], { ...change, instruction: "Change the colour." }) ??
    call(tools, ["file_path", "old_string", "new_string"], change) ??
    call(tools, ["filePath", "oldString", "newString"], { filePath: path, oldString: before, newString: after }) ??
    inScript(tools, `text(await tools.apply_patch(${JSON.stringify(patch)}));`) ??
    named(tools, "apply_patch", { input: patch }) ??
    // Without a tool of its own, Codex knows this command in its shell.
    running(`apply_patch <<'EOF'\n${patch}\nEOF`)(tools);
}

function running(command: string): Step {
  const described = { command, description: "One step of the task" };
  return (tools) =>
    // Another tool of the same program, for agents of its own, has these parameters too.
    named(tools, "bash", described) ??
    call(tools, ["command", "description"], described) ??
    call(tools, ["cmd"], { cmd: command }) ??
    inScript(tools, `text((await tools.exec_command({ cmd: ${JSON.stringify(command)} })).output);`);
}

/** A tool is known by its parameters. */
function call(tools: readonly DeclaredTool[], parameters: readonly string[], args: ToolCall["arguments"]): ToolCall | null {
  const tool = tools.find(({ properties }) => parameters.every((name) => name in properties));
  return tool === undefined ? null : { name: tool.name, arguments: args };
}

function named(tools: readonly DeclaredTool[], name: string, args: ToolCall["arguments"]): ToolCall | null {
  return tools.some((tool) => tool.name === name) ? { name, arguments: args } : null;
}

/** For some models, Codex has one tool that takes a script, from which all others are called. */
function inScript(tools: readonly DeclaredTool[], script: string): ToolCall | null {
  const tool = tools.find(({ description, properties }) => "input" in properties && description.startsWith("Run JavaScript"));
  return tool === undefined ? null : { name: tool.name, arguments: { input: script } };
}
