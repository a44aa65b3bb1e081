/** A line of the last values, without axes. */
export function Spark({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  return (
    <svg class="spark" viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={sparkPath(values, 100, 30)} />
    </svg>
  );
}

/** The path of a line from zero to its highest value, in a box of this size. */
export function sparkPath(values: readonly number[], width: number, height: number): string {
  const last = values.length - 1;
  if (last < 1) return "";
  const max = Math.max(...values);
  const y = (value: number): number => (max <= 0 ? height - 1 : height - 1 - (value / max) * (height - 2));
  return values.map((value, at) => `${at === 0 ? "M" : "L"}${round((at / last) * width)} ${round(y(value))}`).join("");
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
