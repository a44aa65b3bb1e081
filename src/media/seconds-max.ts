/** Ten thousand hours. */
export const secondsMax = 36_000_000;
