/** A SIGHUP that arrives during the start, before a reload is possible. */
export interface EarlyHangup {
  /** Stops listening, once another handler is installed. Returns whether the signal came. */
  release(): boolean;
}

/** From here on SIGHUP does not end the process. */
export function holdHangup(own: Pick<NodeJS.Process, "on" | "off">): EarlyHangup {
  let came = false;
  const note = (): void => {
    came = true;
  };
  own.on("SIGHUP", note);
  return {
    release: () => {
      own.off("SIGHUP", note);
      return came;
    },
  };
}
