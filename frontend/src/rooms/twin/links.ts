// Where a twin, an episode and a result are, as addresses of the studio and as words.
import { useRef } from "preact/hooks";
import type { EpisodePlace } from "../../types";

export const twinHref = (place: string): string => (place.startsWith("twins/") && !place.slice(6).includes("/") ? `/twin/${encodeURIComponent(place.slice(6))}` : `/twin?twin=${encodeURIComponent(place)}`);

export const placeHref = (place: Pick<EpisodePlace, "dataset" | "episode">): string => `/episode/${encodeURIComponent(place.dataset)}/${place.episode}`;

/** A folder of the workspace as people call it: without what the studio or a loop puts around the name. */
export const shortPlace = (place: string): string => place.replace(/^(twins|data|policies)\//, "").replace(/-[0-9a-f]{12}(?=\/|$)/, "");

/** The last value that was there: what is shown stays until what follows has come. */
export function useKept<T>(value: T | null): T | null {
  const kept = useRef<T | null>(value);
  if (value !== null) kept.current = value;
  return value ?? kept.current;
}
