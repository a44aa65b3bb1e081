/** Why the admin listener must not listen on an address; null if it may. Beyond loopback, anybody could create the first account. */
export function bindingProblem(facts: {
  readonly host: string;
  readonly accounts: number;
  readonly tokenGiven: boolean;
  readonly hasProvider: boolean;
}): string | null {
  if (isLoopback(facts.host) || facts.accounts > 0 || facts.tokenGiven || facts.hasProvider) return null;
  return (
    `The admin API must not listen on ${facts.host} while there is neither an admin account nor an admin token: whoever reached it ` +
    "first could take over this gateway. Create an account first (sluice accounts create NAME --role admin), or set ADMIN_TOKEN_FILE " +
    "to a file with a token of 32 characters or more."
  );
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
