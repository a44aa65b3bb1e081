import { endSignals } from "./end-signals.ts";

/** The signals that arrive during the start, before there is anything to reload or to stop. */
export interface EarlySignals {
  /** Stops listening, once other handlers are installed. Returns whether a reload was asked for. */
  release(): boolean;
}

/**
 * From here on SIGHUP does not end the process, and SIGTERM and SIGINT do. They would without us, but not in a container, whose first
 * process gets no signal that it does not listen to: an upgrade of the store would go on until it is killed.
 */
export function holdSignals(own: Pick<NodeJS.Process, "on" | "off" | "exit">): EarlySignals {
  let came = false;
  const note = (): void => {
    came = true;
  };
  const end = (): void => own.exit(0);
  own.on("SIGHUP", note);
  for (const signal of endSignals) own.on(signal, end);
  return {
    release: () => {
      own.off("SIGHUP", note);
      for (const signal of endSignals) own.off(signal, end);
      return came;
    },
  };
}
