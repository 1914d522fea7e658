// The map: drag to move, wheel to zoom, Shift and drag (or the lasso) to outline, click for a point; arrows, + and - with the keyboard.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useDark } from "../theme";
import { paint, paintOverlay, palette, shown, type AxisName, type Scene, type View } from "./painter";
import type { Corner } from "./points";

export type Tool = "move" | "lasso";

export interface Handle {
  zoom: (by: number) => void;
  fit: () => void;
  /** The corners of what is in view. */
  inView: () => Corner[];
}

interface Props {
  scene: Scene;
  across: AxisName;
  up: AxisName;
  tool: Tool;
  outline: readonly Corner[];
  picked: number | null;
  onOutline: (corners: Corner[], done: boolean) => void;
  onPick: (index: number | null) => void;
  handle: { current: Handle | null };
}

const REACH = 12;

function extent(values: Float32Array): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const pad = 0.05 * (high - low || 1);
  return low > high ? [0, 1] : [low - pad, high + pad];
}

function fitted(scene: Scene): View {
  const [x0, x1] = extent(scene.x);
  const [y0, y1] = extent(scene.y);
  return { x0, x1, y0, y1 };
}

export function PointMap(props: Props) {
  const { scene, across, up, outline, picked } = props;
  const box = useRef<HTMLDivElement>(null);
  const map = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const view = useRef<View>(fitted(scene));
  const waiting = useRef(false);
  const latest = useRef(props);
  latest.current = props;
  const dark = useDark();
  const colours = useRef(palette());

  const draw = (): void => {
    if (waiting.current) return;
    waiting.current = true;
    requestAnimationFrame(() => {
      waiting.current = false;
      const [below, above] = [map.current, overlay.current];
      if (!below || !above) return;
      const now = latest.current;
      paint(below, now.scene, view.current, colours.current);
      const at = now.picked === null ? null : ([now.scene.x[now.picked] as number, now.scene.y[now.picked] as number] as const);
      paintOverlay(above, view.current, now.across, now.up, now.outline, at);
      below.dataset["frames"] = String(Number(below.dataset["frames"] ?? 0) + 1);
    });
  };

  useLayoutEffect(() => {
    view.current = fitted(scene);
  }, [scene.x, scene.y]);

  useEffect(() => {
    colours.current = palette();
    draw();
  }, [dark, scene, outline, picked, across.name, up.name]);

  useEffect(() => {
    const resize = (): void => {
      const ratio = window.devicePixelRatio || 1;
      for (const canvas of [map.current, overlay.current]) {
        if (!canvas || !box.current) continue;
        canvas.width = Math.max(50, Math.round(box.current.clientWidth * ratio));
        canvas.height = Math.max(50, Math.round(box.current.clientHeight * ratio));
      }
      draw();
    };
    const observer = new ResizeObserver(resize);
    if (box.current) observer.observe(box.current);
    resize();
    return () => observer.disconnect();
  }, []);

  const toData = (event: { clientX: number; clientY: number }): Corner => {
    const rect = (overlay.current as HTMLCanvasElement).getBoundingClientRect();
    const v = view.current;
    return [v.x0 + ((event.clientX - rect.left) / rect.width) * (v.x1 - v.x0), v.y1 - ((event.clientY - rect.top) / rect.height) * (v.y1 - v.y0)];
  };

  const zoomAt = ([x, y]: Corner, by: number): void => {
    const v = view.current;
    view.current = { x0: x - (x - v.x0) * by, x1: x + (v.x1 - x) * by, y0: y - (y - v.y0) * by, y1: y + (v.y1 - y) * by };
    draw();
  };

  const shift = (dx: number, dy: number): void => {
    const v = view.current;
    const [wide, tall] = [(v.x1 - v.x0) * dx, (v.y1 - v.y0) * dy];
    view.current = { x0: v.x0 + wide, x1: v.x1 + wide, y0: v.y0 + tall, y1: v.y1 + tall };
    draw();
  };

  const center = (): Corner => [(view.current.x0 + view.current.x1) / 2, (view.current.y0 + view.current.y1) / 2];

  props.handle.current = {
    zoom: (by) => zoomAt(center(), by),
    fit: () => {
      view.current = fitted(latest.current.scene);
      draw();
    },
    inView: () => {
      const { x0, x1, y0, y1 } = view.current;
      return [[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
    },
  };

  const nearest = (event: PointerEvent): number | null => {
    const now = latest.current.scene;
    const rect = (overlay.current as HTMLCanvasElement).getBoundingClientRect();
    const [x, y] = toData(event);
    const [sx, sy] = [rect.width / (view.current.x1 - view.current.x0), rect.height / (view.current.y1 - view.current.y0)];
    let best: number | null = null;
    let least = REACH * REACH;
    for (let i = 0; i < now.x.length; i++) {
      const far = (((now.x[i] as number) - x) * sx) ** 2 + (((now.y[i] as number) - y) * sy) ** 2 + (i >= now.real ? 4 : 0);
      if (far < least && shown(now, i)) {
        least = far;
        best = i;
      }
    }
    return best;
  };

  useEffect(() => {
    const element = overlay.current;
    if (!element) return;
    let corners: Corner[] | null = null;
    let from: { x: number; y: number; moved: boolean } | null = null;
    const down = (event: PointerEvent): void => {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      if (latest.current.tool === "lasso" || event.shiftKey) corners = [toData(event)];
      else from = { x: event.clientX, y: event.clientY, moved: false };
    };
    const move = (event: PointerEvent): void => {
      if (corners) {
        corners = [...corners, toData(event)];
        latest.current.onOutline(corners, false);
      } else if (from) {
        const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
        if (!from.moved && Math.hypot(dx, dy) < 4) return;
        const rect = element.getBoundingClientRect();
        shift(-dx / rect.width, dy / rect.height);
        from = { x: event.clientX, y: event.clientY, moved: true };
      }
    };
    const release = (event: PointerEvent): void => {
      if (corners && corners.length > 2) latest.current.onOutline(corners, true);
      else if (from && !from.moved) latest.current.onPick(nearest(event));
      corners = from = null;
    };
    const wheel = (event: WheelEvent): void => {
      event.preventDefault();
      zoomAt(toData(event), event.deltaY > 0 ? 1.15 : 1 / 1.15);
    };
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", release);
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", release);
      element.removeEventListener("wheel", wheel);
    };
  }, []);

  const key = (event: KeyboardEvent): void => {
    const steps: Record<string, () => void> = {
      ArrowLeft: () => shift(-0.1, 0),
      ArrowRight: () => shift(0.1, 0),
      ArrowUp: () => shift(0, 0.1),
      ArrowDown: () => shift(0, -0.1),
      "+": () => zoomAt(center(), 0.8),
      "=": () => zoomAt(center(), 0.8),
      "-": () => zoomAt(center(), 1.25),
      "0": () => latest.current.handle.current?.fit(),
      Enter: () => latest.current.onOutline(latest.current.handle.current?.inView() ?? [], true),
    };
    const step = steps[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    step();
  };

  const label = `Map of ${scene.real} real and ${scene.x.length - scene.real} simulated points, ${across.name} across and ${up.name} up. Arrows move, plus and minus zoom, 0 shows all, Enter selects what is in view.`;
  return (
    <div class={`point-map point-map-${props.tool}`} ref={box}>
      <canvas ref={map} />
      <canvas ref={overlay} tabIndex={0} role="img" aria-label={label} onKeyDown={key} />
    </div>
  );
}
