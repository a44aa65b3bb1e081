import type { ChannelsRequest } from "./channels/arguments.ts";
import type { StoreRequest } from "./command-registry.ts";
import type { SchemaName } from "./config/arguments.ts";
import type { DoctorRequest } from "./doctor/arguments.ts";
import type { ImportRequest } from "./import/arguments.ts";
import type { InitRequest } from "./init/arguments.ts";
import type { RemoteOptions } from "./remote-gateway.ts";

/** A parsed command line. The caller carries it out. */
export type Invocation =
  | StartInvocation
  | { readonly command: "check"; readonly file: string | null; readonly json: boolean }
  | { readonly command: "health"; readonly address: string | null }
  | { readonly command: "models"; readonly config: string | null; readonly request: ModelsRequest }
  | { readonly command: "store"; readonly config: string | null; readonly request: StoreRequest; readonly remote?: RemoteOptions }
  | { readonly command: "import"; readonly request: ImportRequest }
  | { readonly command: "channels"; readonly config: string | null; readonly request: ChannelsRequest; readonly remote?: RemoteOptions }
  | { readonly command: "init"; readonly request: InitRequest }
  | { readonly command: "doctor"; readonly config: string | null; readonly request: DoctorRequest }
  | { readonly command: "schema"; readonly name: SchemaName }
  | { readonly command: "completion"; readonly text: string }
  | { readonly command: "help"; readonly text: string }
  | { readonly command: "version"; readonly text: string }
  | { readonly command: "usage-error"; readonly text: string; readonly exitCode: typeof usageExitCode };

export interface StartInvocation {
  readonly command: "start";
  readonly config: string | null;
  readonly listen: string | null;
  readonly admin: string | null;
  /** How many processes share the port. */
  readonly workers?: number;
  /** Set by the parent process for its workers: the number of this worker, and the port that overrides the settings. */
  readonly worker?: number;
  readonly workerPort?: number;
}

/** A command on the local models. */
export type ModelsRequest =
  | { readonly act: "list"; readonly json: boolean }
  | { readonly act: "add"; readonly name: string }
  | { readonly act: "remove"; readonly name: string };

/** EX_USAGE of sysexits.h. */
export const usageExitCode = 64;
