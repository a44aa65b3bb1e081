import { CommandError, exitCodes } from "./command-error.ts";

/** Standard input and output of a command. */
export interface Terminal {
  /** A person is there, who can answer questions. */
  readonly isInteractive: boolean;
  /** Writes a result to standard output. */
  print(text: string): void;
  /** Writes anything else to standard error. */
  say(text: string): void;
  /** Shows a line that the next one replaces; nothing where the output is not a terminal. */
  progress(line: string | null): void;
  confirm(question: string): Promise<boolean>;
  /** Reads a line that a person types. */
  ask(prompt: string): Promise<string>;
  /** Reads a secret: typed without echo at a terminal, otherwise all of standard input. */
  secret(prompt: string): Promise<string>;
}

export function processTerminal(): Terminal {
  const isInteractive = process.stdin.isTTY && process.stderr.isTTY;
  let isLineOpen = false;
  const clear = (): void => {
    if (isLineOpen) process.stderr.write("\r\u001B[K");
    isLineOpen = false;
  };
  return {
    isInteractive,
    print: (text) => {
      clear();
      console.log(text);
    },
    say: (text) => {
      clear();
      console.error(text);
    },
    progress: (line) => {
      clear();
      if (line === null || !process.stderr.isTTY) return;
      process.stderr.write(line.slice(0, (process.stderr.columns || 80) - 1));
      isLineOpen = true;
    },
    confirm: async (question) => /^\s*y(es)?\s*$/i.test(await readTyped(`${question} [y/N] `, true)),
    ask: (prompt) => readTyped(prompt, true),
    secret: async (prompt) => (isInteractive ? readTyped(prompt, false) : readPiped()),
  };
}

/** From here on, the first Ctrl-C lets the command tidy up. */
export function interruption(): AbortSignal {
  const abort = new AbortController();
  process.once("SIGINT", () => abort.abort());
  return abort.signal;
}

/** Longer than any password or key. */
const secretBytesMax = 64 * 1024;

async function readPiped(): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > secretBytesMax) throw new CommandError("Standard input is too long: send one line.", exitCodes.usage);
    chunks.push(chunk);
  }
  return oneLine(Buffer.concat(chunks));
}

/** Decodes standard input, which must be one line. */
export function oneLine(bytes: Uint8Array): string {
  const text = decoded(bytes).replace(/\r?\n$/, "");
  if (text === "") throw new CommandError("Standard input is empty: send the value there, or run this in a terminal.", exitCodes.usage);
  if (/[\r\n]/.test(text)) throw new CommandError("Standard input has more than one line: send only one.", exitCodes.usage);
  return text;
}

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CommandError("Standard input is not valid UTF-8.", exitCodes.usage);
  }
}

/** Reads a line from the keyboard. Without echo the terminal is in raw mode, so the line is edited here. */
async function readTyped(prompt: string, echo: boolean): Promise<string> {
  const { stdin, stderr } = process;
  // Before the prompt, so that keys typed ahead are not echoed either.
  stdin.setRawMode(true);
  stdin.resume();
  stderr.write(prompt);
  const done = Promise.withResolvers<string>();
  let line = "";
  const press = (key: string): void => {
    if (key === "\r" || key === "\n" || key === "\u0004") done.resolve(line);
    else if (key === "\u0003") done.reject(new CommandError("Stopped: nothing was changed.", exitCodes.interrupt));
    else if (key === "\u0015") line = "";
    else if (key === "\u007F" || key === "\b") line = line.replace(/.$/su, "");
    else if (line.length < secretBytesMax && !/\p{Cc}/u.test(key)) line += key;
  };
  const decoder = new TextDecoder();
  const onData = (chunk: Uint8Array): void => {
    const before = line;
    for (const key of decoder.decode(chunk, { stream: true })) press(key);
    if (echo && line !== before) stderr.write(`\r\u001B[K${prompt}${line}`);
  };
  stdin.on("data", onData);
  stdin.on("end", () => done.resolve(line));
  try {
    return await done.promise;
  } finally {
    stdin.off("data", onData);
    stdin.setRawMode(false);
    stdin.pause();
    stderr.write("\n");
  }
}
