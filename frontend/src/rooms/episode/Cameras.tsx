// Camera frames under the play head: sheets of many frames are fetched ahead, so that scrubbing waits for nothing.
import { useEffect, useRef, useState } from "preact/hooks";
import { address } from "../../api";
import type { CameraLine, EpisodeAnswer } from "../../types";
import { useTime, type Clock } from "./clock";

const KEPT = 12;
/** After this long on one frame, it is fetched in full. */
const PAUSE_MS = 160;
const MOST_SIDE = 1280;

/** Sheets of one camera: fetched once, those around the play head first. */
class Sheets {
  private readonly images = new Map<number, HTMLImageElement>();

  constructor(
    private readonly episode: EpisodeAnswer,
    private readonly camera: CameraLine,
    private readonly onLoad: () => void,
  ) {}

  at(sheet: number): HTMLImageElement | null {
    for (const near of [sheet, sheet + 1]) if (near < this.camera.sheets) this.fetch(near);
    const found = this.images.get(sheet);
    return found?.complete && found.naturalWidth > 0 ? found : null;
  }

  private fetch(sheet: number): void {
    if (this.images.has(sheet)) return;
    const image = new Image();
    image.onload = () => {
      void image.decode().then(this.onLoad, this.onLoad);
      const next = [...Array(this.camera.sheets).keys()].find((one) => !this.images.has(one));
      if (next !== undefined && this.camera.sheets <= KEPT) this.fetch(next);
    };
    image.src = address(`/api/episode/sheet/${this.episode.id}`, { dataset: this.episode.dataset, episode: this.episode.episode, camera: this.camera.name, sheet });
    this.images.set(sheet, image);
    for (const old of [...this.images.keys()]) {
      if (this.images.size <= KEPT) break;
      if (Math.abs(old - sheet) > 2) this.images.delete(old);
    }
  }
}

function CameraView({ episode, camera, clock }: { episode: EpisodeAnswer; camera: CameraLine; clock: Clock }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [round, setRound] = useState(0);
  const sheets = useRef<Sheets | null>(null);
  const time = useTime(clock);
  const shrunk = Math.max(1, Math.max(camera.width, camera.height) / MOST_SIDE);
  const row = Math.min(episode.rows - 1, Math.max(0, Math.round(time * episode.rate_hz)));
  useEffect(() => {
    sheets.current = new Sheets(episode, camera, () => setRound((n) => n + 1));
    setRound((n) => n + 1);
  }, [episode.id, camera.name]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    const number = Math.floor(row / camera.per_sheet);
    const image = sheets.current?.at(number);
    if (!context || !image) return;
    const place = row - number * camera.per_sheet;
    const { frame_width: width, frame_height: height } = camera;
    const { width: wide, height: tall } = context.canvas;
    context.drawImage(image, (place % camera.columns) * width, Math.floor(place / camera.columns) * height, width, height, 0, 0, wide, tall);
  }, [row, round]);
  useEffect(() => {
    if (camera.frame_width === camera.width || clock.playing()) return;
    let alive = true;
    const timer = window.setTimeout(() => {
      const image = new Image();
      image.onload = () => alive && canvas.current?.getContext("2d")?.drawImage(image, 0, 0, canvas.current.width, canvas.current.height);
      image.src = address(`/api/episode/frame/${episode.id}`, { dataset: episode.dataset, episode: episode.episode, camera: camera.name, row });
    }, PAUSE_MS);
    return () => {
      alive = false;
      window.clearTimeout(timer);
    };
  }, [row, round, clock.playing()]);
  return (
    <figure class="camera">
      <canvas ref={canvas} width={Math.round(camera.width / shrunk)} height={Math.round(camera.height / shrunk)} role="img" aria-label={`Camera ${camera.name} of episode ${episode.episode}`} />
      <figcaption>{camera.name}</figcaption>
    </figure>
  );
}

/** Every camera of an episode beside each other. */
export function Cameras({ episode, clock }: { episode: EpisodeAnswer; clock: Clock }) {
  if (episode.cameras.length === 0) return null;
  return <div class="cameras">{episode.cameras.map((camera) => <CameraView key={camera.name} episode={episode} camera={camera} clock={clock} />)}</div>;
}
