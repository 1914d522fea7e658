// Every room: its address, its place in the menu, and how to fetch it.
import { lazyRoom } from "./router";
import type { IconName } from "./ui/Icon";

export interface RoomEntry {
  /** Path patterns that lead here; the first is the menu's link. */
  paths: readonly [string, ...string[]];
  title: string;
  icon: IconName;
  /** Not in the menu: reached from another room, whose path is named. */
  within?: string;
  room: ReturnType<typeof lazyRoom>;
}

export const GROUPS: readonly { title: string; rooms: readonly RoomEntry[] }[] = [
  {
    title: "",
    rooms: [{ paths: ["/overview", "/"], title: "Overview", icon: "overview", room: lazyRoom(() => import("./rooms/overview")) }],
  },
  {
    title: "Recordings",
    rooms: [
      { paths: ["/data", "/data/:dataset"], title: "Data", icon: "data", room: lazyRoom(() => import("./rooms/data")) },
      { paths: ["/episode/:dataset/:index"], title: "Episode", icon: "episode", within: "/data", room: lazyRoom(() => import("./rooms/episode")) },
    ],
  },
];

export const ROOMS: readonly RoomEntry[] = GROUPS.flatMap((group) => group.rooms);
