// Bears company: its time is a bound that only what fails ever reaches.

/** Resolves as soon as the claim holds; throws, with what was awaited, when it does not within the time. */
export async function eventually(what: string, holds: () => boolean | Promise<boolean>, withinMs = 10_000): Promise<void> {
  const deadlineMs = performance.now() + withinMs;
  while (!(await holds())) {
    if (performance.now() > deadlineMs) throw new Error(`not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

const pollMs = 4;
