/** Whether the Connection header has this option, which is one of a list: `not-close` is another one than `close`. */
export function hasOption(header: string | undefined, option: "close" | "keep-alive"): boolean {
  return header !== undefined && options[option].test(header);
}

const options = {
  close: /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i,
  "keep-alive": /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i,
};
