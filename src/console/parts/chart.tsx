import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { chartMoment, wholeMoment } from "../core/format.ts";
import { isSystemDark, theme } from "../core/theme.ts";

/** One line or area of a chart. */
export interface ChartSeries {
  readonly label: string;
  /** A colour of `tokens.css`, such as `--series-1`. */
  readonly colour: string;
  readonly values: readonly (number | null)[];
  readonly isFilled?: boolean;
}

export interface ChartProps {
  /** What it shows, for people who do not see it. */
  readonly label: string;
  /** Moments in seconds, rising. */
  readonly at: readonly number[];
  readonly series: readonly ChartSeries[];
  readonly format: (value: number | null) => string;
  readonly height?: number;
}

/** A chart over time, drawn on a canvas: ten thousand points take a few milliseconds. */
export function Chart({ label, at, series, format, height = 180 }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const colours = `${theme.value} ${isSystemDark.value}`;
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const plot = new uPlot(options(element, series, format, height), data(at, series), element);
    const follow = new ResizeObserver(([entry]) => plot.setSize({ width: Math.floor(entry?.contentRect.width ?? 0), height }));
    follow.observe(element);
    return () => {
      follow.disconnect();
      plot.destroy();
    };
    // The figures of `at` and `series` change together, and with each answer.
  }, [at, series, colours, height]);
  return <div class="chart" ref={box} role="img" aria-label={label} />;
}

function data(at: readonly number[], series: readonly ChartSeries[]): uPlot.AlignedData {
  return [[...at], ...series.map(({ values }) => [...values])];
}

function options(
  element: HTMLElement,
  series: readonly ChartSeries[],
  format: (value: number | null) => string,
  height: number,
): uPlot.Options {
  const styles = getComputedStyle(element);
  const colour = (name: string): string => resolved(element, name);
  const axis: uPlot.Axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: `12px ${styles.fontFamily}`,
  };
  return {
    width: element.clientWidth,
    height,
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    legend: { live: true },
    scales: { y: { range: (_, __, max) => [0, max <= 0 ? 1 : max * 1.08] } },
    axes: [
      { ...axis, gap: 8, size: 36, values: (_, splits, __, ___, step) => splits.map((at) => chartMoment(at * 1000, step * 1000)) },
      { ...axis, size: 62, values: (_, splits) => splits.map((value) => format(value)) },
    ],
    series: [
      { label: "\u00a0", value: (_, seconds) => (seconds === null ? "" : wholeMoment(new Date(seconds * 1000).toISOString())) },
      ...series.map(({ label, colour: name, isFilled }): uPlot.Series => ({
        label,
        stroke: colour(name),
        width: 1.75,
        points: { show: false },
        ...(isFilled === true ? { fill: transparent(colour(name)) } : {}),
        // Figures are shown of the moment that is pointed at.
        value: (_, value: number | null, __, at: number | null) => (at === null ? "" : format(value)),
      })),
    ],
  };
}

/** A canvas does not understand `light-dark()`, so that the browser resolves it first. */
function resolved(element: HTMLElement, name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function transparent(colour: string): string {
  return colour.replace(/^rgb\(([^)]+)\)$/, "rgba($1, 0.14)");
}
