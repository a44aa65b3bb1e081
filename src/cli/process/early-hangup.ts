/** The wish for a reload, as it is heard before anybody can carry it out. */
export interface EarlyHangup {
  /** Leaves the signal to somebody else, who is listening already, and says whether it came. */
  release(): boolean;
}

/** From here on SIGHUP no longer ends the process. */
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
