/** Starts the browser of this desktop, if there is one. */
export function startBrowser(url: string): boolean {
  const command = process.platform === "darwin" ? "open" : "xdg-open";
  if (Bun.which(command) === null) return false;
  Bun.spawn([command, url], { stdin: "ignore", stdout: "ignore", stderr: "ignore" }).unref();
  return true;
}
