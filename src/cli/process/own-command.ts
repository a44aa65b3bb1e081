/** How this program was started: as a program, by npm in a clone, or by npx. */
export type Launch = { readonly by: "npm" | "npx" } | { readonly by: "name"; readonly name: string };

/** Read from the variables that npm sets. `executable` is the file that was started, where the gateway is one. */
export function launchOf(env: Readonly<Record<string, string | undefined>>, packageName: string, executable: string | null): Launch {
  if (executable !== null) return { by: "name", name: executable };
  const event = env["npm_lifecycle_event"];
  if (event === "npx") return { by: "npx" };
  const isOwnScript = (event === "start" || event === "sluice") && env["npm_package_name"] === packageName;
  return isOwnScript ? { by: "npm" } : { by: "name", name: "sluice" };
}

/** Writes the commands in a text, such as `sluice keys list`, as they have to be typed after this launch. */
export function asTyped(text: string, launch: Launch): string {
  return text.replaceAll(commands, (_, command: string, option: string | undefined) => {
    const rest = `${command}${option ?? ""}`;
    if (launch.by === "npx") return `npx sluice ${rest}`;
    if (launch.by === "name") return `${launch.name} ${rest}`;
    if (command !== "start") return `npm run --silent sluice -- ${rest}`;
    return option === undefined ? "npm start" : `npm start --${option}`;
  });
}

const commands =
  /\bsluice (start|init|doctor|check|health|models|keys|groups|issuers|usage|requests|explain|tail|audit|accounts|prices|channels|import|config|backup|restore|master-key|open|lab|completion|help|\[options\]|--help)( -)?/g;
