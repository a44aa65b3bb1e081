import type { CommandTree } from "./command-tree.ts";

export const completionShells = ["bash", "zsh", "fish"] as const;
export type CompletionShell = (typeof completionShells)[number];

/** A script that teaches a shell to complete commands and options. Values, such as files, stay the shell's own. */
export function completionScript(shell: CompletionShell, tree: CommandTree): string {
  switch (shell) {
    case "bash":
      return `${bashFunction(tree)}complete -o default -F _sluice sluice\n`;
    case "zsh":
      // Zsh runs completions that were written for bash.
      return `#compdef sluice\nautoload -U +X bashcompinit && bashcompinit\n${bashFunction(tree)}complete -o default -F _sluice sluice\n`;
    case "fish":
      return fishScript(tree);
  }
}

interface CompletedPath {
  /** The words before, such as `keys create`. */
  readonly path: string;
  readonly words: readonly string[];
}

function pathsOf(tree: CommandTree, before: readonly string[] = []): readonly CompletedPath[] {
  return [{ path: before.join(" "), words: tree.words }, ...tree.commands.flatMap((inner) => pathsOf(inner, [...before, inner.name]))];
}

function bashFunction(tree: CommandTree): string {
  const paths = pathsOf(tree);
  const known = paths.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  return `_sluice() {
  local path="" next word words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${path:+$path }$word"
    case "$next" in
      ${known.join("|")}) path="$next" ;;
    esac
  done
  case "$path" in
${paths.map(({ path, words }) => `    "${path}") words="${words.join(" ")}" ;;`).join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
`;
}

function fishScript(tree: CommandTree): string {
  const paths = pathsOf(tree);
  const known = paths.filter(({ path }) => path !== "").map(({ path }) => `'${path}'`);
  return `function __sluice_path
  set -l path ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$path $word")
    contains -- $next ${known.join(" ")}; and set path $next
  end
  test "$path" = "$argv[1]"
end
${paths.map(({ path, words }) => `complete -c sluice -n "__sluice_path '${path}'" -a '${words.join(" ")}'`).join("\n")}
`;
}
