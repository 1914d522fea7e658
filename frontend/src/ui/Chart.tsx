// Line charts: uPlot with the studio's colours, synchronized cursors, bands, and a play head.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { number } from "../format";
import { colour, useDark } from "../theme";

export interface Series {
  label: string;
  values: ArrayLike<number | null>;
  /** A colour of the style sheet, such as `--series-1`; by position otherwise. */
  color?: string;
  width?: number;
  dash?: number[];
  /** Marks instead of a line. */
  points?: boolean;
  /** Steps instead of a line through the values. */
  stepped?: boolean;
}

export interface Band {
  label: string;
  low: ArrayLike<number | null>;
  high: ArrayLike<number | null>;
  color?: string;
}

export interface Span {
  from: number;
  to: number;
  label?: string;
  color?: string;
}

interface Props {
  /** What the chart shows, for the title and for screen readers. */
  title: string;
  x: ArrayLike<number>;
  series: readonly Series[];
  bands?: readonly Band[];
  /** Shaded ranges of x, such as phases or trimmed ends. */
  spans?: readonly Span[];
  xLabel?: string;
  yLabel?: string;
  height?: number;
  yRange?: [number, number];
  /** Charts with the same key share their cursor and their zoom. */
  sync?: string;
  /** Where the play head stands, in units of x. */
  playhead?: number | null;
  /** Called with x under the pointer while it is held down. */
  onScrub?: (x: number) => void;
  legend?: boolean;
  hideTitle?: boolean;
}

/** Where the play head stands, and how to put its line there. */
interface Head {
  playhead: number | null | undefined;
  move: () => void;
}

/** The play head is an element over the plot, so that moving it draws no line again. */
function makeHead(plot: uPlot, state: Head, legend: boolean): void {
  const line = document.createElement("div");
  line.className = "playhead";
  plot.over.appendChild(line);
  state.move = () => {
    const at = state.playhead;
    const { min = 0, max = 0 } = plot.scales["x"] ?? {};
    line.hidden = at === null || at === undefined || at < (min ?? 0) || at > (max ?? 0);
    if (at === null || at === undefined || line.hidden) return;
    line.style.transform = `translateX(${plot.valToPos(at, "x").toFixed(1)}px)`;
    if (legend && plot.cursor.idx === null) plot.setLegend({ idx: plot.valToIdx(at) });
  };
  state.move();
}

const seriesColour = (index: number): string => `--series-${(index % 8) + 1}`;

function build(props: Props, width: number, state: Head): uPlot.Options {
  const { series, bands = [], spans = [], xLabel, yLabel, height = 180, yRange, sync, legend = series.length > 1 } = props;
  const grid = { stroke: colour("--grid"), width: 1 };
  const axis: uPlot.Axis = { stroke: colour("--text-soft"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", labelSize: 16, gap: 4 };
  const write = (_: uPlot, values: (number | null)[]): string[] => values.map((value) => (value === null ? "" : number(value, 4)));
  const lines: uPlot.Series[] = series.map((one, i) => ({
    label: one.label,
    stroke: colour(one.color ?? seriesColour(i)),
    width: one.points ? 0 : (one.width ?? 1.5),
    ...(one.dash ? { dash: one.dash } : {}),
    ...(one.stepped && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
    points: one.points ? { show: true, size: 5, fill: colour(one.color ?? seriesColour(i)), width: 0 } : { show: false },
    value: (_, value) => (value === null || value === undefined ? "–" : number(value, 4)),
  }));
  const edges = bands.flatMap((band) => ["high", "low"].map((edge): uPlot.Series => ({ label: `${band.label} ${edge}`, stroke: "transparent", width: 0, points: { show: false }, class: "u-edge" })));
  const onto = (plot: uPlot, x: number): number => plot.valToPos(x, "x", true);
  return {
    width,
    height,
    padding: [8, 10, 0, 0],
    legend: { show: legend, live: true, markers: { fill: (plot, i) => (plot.series[i]?.stroke as (() => string) | undefined)?.() ?? "", width: 0 } },
    cursor: {
      ...(sync ? { sync: { key: sync, setSeries: false } } : {}),
      drag: { x: !props.onScrub, y: false },
      points: { size: 6 },
    },
    scales: { x: { time: false }, ...(yRange ? { y: { range: yRange } } : {}) },
    axes: [{ ...axis, size: xLabel ? 22 : 24, values: write, ...(xLabel ? { label: xLabel } : {}) }, { ...axis, size: 52, values: write, ...(yLabel ? { label: yLabel } : {}) }],
    series: [{ label: xLabel ?? "x" }, ...lines, ...edges],
    bands: bands.map((band, i) => ({ series: [1 + series.length + 2 * i, 2 + series.length + 2 * i] as [number, number], fill: colour(band.color ?? "--band") })),
    hooks: {
      drawClear: [
        (plot) => {
          const { ctx, bbox } = plot;
          for (const span of spans) {
            const from = Math.max(bbox.left, onto(plot, span.from));
            const to = Math.min(bbox.left + bbox.width, onto(plot, span.to));
            if (to <= from) continue;
            ctx.fillStyle = colour(span.color ?? "--span");
            ctx.fillRect(from, bbox.top, to - from, bbox.height);
          }
        },
      ],
      setScale: [() => state.move()],
      setSize: [() => state.move()],
    },
  };
}

function dataOf({ x, series, bands = [] }: Props): uPlot.AlignedData {
  const values = [x, ...series.map((one) => one.values), ...bands.flatMap((band) => [band.high, band.low])];
  return values.map((one) => (Array.isArray(one) || ArrayBuffer.isView(one) ? one : Array.from(one as ArrayLike<number>))) as unknown as uPlot.AlignedData;
}

/** A chart of one or more series over x. Drag to zoom, double-click to see all again. */
export function Chart(props: Props) {
  const { title, height = 180, hideTitle = false } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const state = useRef<Head>({ playhead: props.playhead, move: () => undefined });
  const scrub = useRef(props.onScrub);
  scrub.current = props.onScrub;
  const dark = useDark();
  const shape = JSON.stringify([props.series.map(({ values: _, ...rest }) => rest), (props.bands ?? []).map((band) => [band.label, band.color]), props.spans, props.xLabel, props.yLabel, props.yRange, props.sync, height, props.legend, Boolean(props.onScrub)]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const made = new uPlot(build(props, Math.max(120, element.clientWidth), state.current), dataOf(props), element);
    plot.current = made;
    makeHead(made, state.current, props.legend ?? props.series.length > 1);
    const observer = new ResizeObserver(() => element.clientWidth > 0 && made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    const held = (event: PointerEvent): void => {
      if (!scrub.current || event.buttons !== 1) return;
      const box = made.over.getBoundingClientRect();
      scrub.current(made.posToVal(Math.min(box.width, Math.max(0, event.clientX - box.left)), "x"));
      if (event.type === "pointerdown") made.over.setPointerCapture(event.pointerId);
    };
    made.over.addEventListener("pointerdown", held);
    made.over.addEventListener("pointermove", held);
    return () => {
      observer.disconnect();
      state.current.move = () => undefined;
      made.destroy();
      plot.current = null;
    };
  }, [shape, dark]);
  useEffect(() => {
    plot.current?.setData(dataOf(props));
  }, [props.x, ...props.series.map((one) => one.values), ...(props.bands ?? []).flatMap((band) => [band.low, band.high])]);
  useEffect(() => {
    state.current.playhead = props.playhead;
    state.current.move();
  }, [props.playhead]);
  return (
    <figure class="chart" role="img" aria-label={title}>
      {!hideTitle && <figcaption>{title}</figcaption>}
      <div class="chart-plot" ref={place} />
    </figure>
  );
}
