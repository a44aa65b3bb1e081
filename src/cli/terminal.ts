import { CommandError, exitCodes } from "./command-error.ts";

/** Where a command is given: what it prints to, and whom it can ask. */
export interface Terminal {
  /** Somebody is there who can be asked. */
  readonly asks: boolean;
  /** Results, and nothing else. */
  print(text: string): void;
  /** Words around them. */
  say(text: string): void;
  /** A line that the next one replaces; not for logs. */
  progress(line: string | null): void;
  confirm(question: string): Promise<boolean>;
  /** One line that nobody is to see: typed without an echo where somebody is there, else all of standard input. */
  secret(prompt: string): Promise<string>;
}

export function processTerminal(): Terminal {
  const asks = process.stdin.isTTY && process.stderr.isTTY;
  let isLineOpen = false;
  const clear = (): void => {
    if (isLineOpen) process.stderr.write("\r\u001B[K");
    isLineOpen = false;
  };
  return {
    asks,
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
    confirm: async (question) => /^\s*y(es)?\s*$/i.test(await typed(`${question} [y/N] `, true)),
    secret: async (prompt) => (asks ? typed(prompt, false) : piped()),
  };
}

/** Longer than any password or key. */
const secretBytesMax = 64 * 1024;

async function piped(): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > secretBytesMax) throw new CommandError("Standard input is too long: send one line.", exitCodes.usage);
    chunks.push(chunk);
  }
  return oneLine(Buffer.concat(chunks));
}

/** What came on standard input, as the one line it has to be. */
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

/** A line from the keyboard. Without an echo the terminal gives us every key as it is pressed, so we edit the line ourselves. */
async function typed(prompt: string, echo: boolean): Promise<string> {
  const { stdin, stderr } = process;
  // First of all, so that not even what is typed ahead can be seen.
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
  const hear = (chunk: Uint8Array): void => {
    const before = line;
    for (const key of decoder.decode(chunk, { stream: true })) press(key);
    if (echo && line !== before) stderr.write(`\r\u001B[K${prompt}${line}`);
  };
  stdin.on("data", hear);
  stdin.on("end", () => done.resolve(line));
  try {
    return await done.promise;
  } finally {
    stdin.off("data", hear);
    stdin.setRawMode(false);
    stdin.pause();
    stderr.write("\n");
  }
}
