/**
 * Work that must not overlap itself, such as reading a file that changes: an older reading that ends later would undo the newer one.
 * Whoever asks while it is at it is served by one more round after it.
 */
export function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running = false;
  let again = false;
  const round = async (): Promise<void> => {
    running = true;
    again = false;
    try {
      await work();
    } finally {
      running = false;
      if (again) void round();
    }
  };
  return async () => {
    if (running) again = true;
    else await round();
  };
}
