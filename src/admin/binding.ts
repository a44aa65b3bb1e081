/** Why the admin listener must not be opened there, or null. Off the loopback, somebody else would be first to claim it. */
export function bindingProblem(facts: { readonly host: string; readonly accounts: number; readonly tokenGiven: boolean }): string | null {
  if (isLoopback(facts.host) || facts.accounts > 0 || facts.tokenGiven) return null;
  return (
    `The admin listener may not be opened on ${facts.host} while there is neither an admin account nor an admin token: whoever reaches it ` +
    "first would own this gateway. Create an account first (start with the admin listener on 127.0.0.1 and use the bootstrap token), or " +
    "set ADMIN_TOKEN_FILE to a file with a token of 32 characters or more."
  );
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
