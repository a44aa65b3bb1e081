/** The known word that a mistyped one probably means, or null if none is close enough. */
export function nearest(word: string, known: readonly string[]): string | null {
  const plain = word.toLowerCase().replaceAll("-", "_").slice(0, wordLengthMax);
  let best: string | null = null;
  // A third of the word may be wrong, and never more than three characters.
  let bestDistance = Math.min(3, Math.floor(plain.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(plain, candidate.toLowerCase().replaceAll("-", "_"));
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

const wordLengthMax = 64;

/** How many insertions, deletions, substitutions and swaps of neighbours lead from one word to the other. */
function editDistance(from: string, to: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1];
      let cost = Math.min((previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1, (previous[column - 1] ?? 0) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (swapped) cost = Math.min(cost, (beforePrevious[column - 2] ?? 0) + 1);
      current.push(cost);
    }
    [beforePrevious, previous] = [previous, current];
  }
  return previous[to.length] ?? 0;
}
