import type { RemoteGateway } from "./admin-api.ts";
import { CommandError, exitCodes } from "./command-error.ts";

/** The options of a gateway elsewhere, as they were typed. */
export interface RemoteOptions {
  readonly url?: string;
  readonly token?: string;
}

/** The variables that stand in for the options. */
export interface RemoteVariables {
  readonly url: string | null;
  /** Read only if it is needed: it may be in a file. */
  readonly token: () => string | null;
}

/** Which gateway a command is for; null: it works on the store. A configuration file that is named goes before the variables. */
export function remoteGateway(
  { url: givenUrl, token: givenToken }: RemoteOptions,
  config: string | null,
  variables: RemoteVariables,
): RemoteGateway | CommandError | null {
  const url = givenUrl ?? (config === null ? variables.url : null);
  if (url === null) {
    if (givenToken === undefined) return null;
    return new CommandError("A token is given, but no gateway: give its address with --url or SLUICE_ADMIN_URL too.", exitCodes.usage);
  }
  const token = givenToken ?? variables.token();
  if (token === null || token === "") {
    return new CommandError(
      "A gateway elsewhere needs an admin token: give it in SLUICE_ADMIN_TOKEN, or with --token. An admin makes one with " +
        "sluice accounts tokens create NAME, or in the console.",
      exitCodes.usage,
    );
  }
  // What a header cannot carry is not sent.
  if (!/^[\x21-\x7e]{1,4096}$/.test(token)) return new CommandError("The admin token has characters that no token has.", exitCodes.usage);
  const base = baseUrl(url);
  return base instanceof CommandError ? base : { url: base, token };
}

function baseUrl(text: string): string | CommandError {
  const url = URL.parse(text);
  const isPlain = url !== null && (url.protocol === "https:" || url.protocol === "http:") && url.username === "" && url.password === "";
  if (!isPlain || url.search !== "" || url.hash !== "") {
    return new CommandError(
      "The address of a gateway elsewhere must be like https://gateway:4401, without a user and parameters.",
      exitCodes.usage,
    );
  }
  return `${url.origin}${url.pathname.replace(/(?:\/admin(?:\/api)?)?\/*$/, "")}`;
}
