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
  /** Fills the whole window, without the menu. */
  alone?: boolean;
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
  {
    title: "Twin",
    rooms: [
      { paths: ["/twin", "/twin/:twin"], title: "Twin", icon: "twin", room: lazyRoom(() => import("./rooms/twin")) },
      { paths: ["/identify"], title: "Identify", icon: "identify", room: lazyRoom(() => import("./rooms/identify")) },
    ],
  },
  {
    title: "Reality gap",
    rooms: [
      { paths: ["/gap"], title: "Gap", icon: "gap", room: lazyRoom(() => import("./rooms/gap")) },
      { paths: ["/coverage"], title: "Coverage", icon: "coverage", room: lazyRoom(() => import("./rooms/coverage")) },
      { paths: ["/plan"], title: "Plan", icon: "plan", room: lazyRoom(() => import("./rooms/plan")) },
    ],
  },
  {
    title: "Policies",
    rooms: [
      { paths: ["/policies"], title: "Policies", icon: "policies", room: lazyRoom(() => import("./rooms/policies")) },
      { paths: ["/gate"], title: "Gate", icon: "gate", room: lazyRoom(() => import("./rooms/gate")) },
      { paths: ["/monitor"], title: "Monitor", icon: "monitor", room: lazyRoom(() => import("./rooms/monitor")) },
    ],
  },
  {
    title: "Workspace",
    rooms: [
      { paths: ["/people"], title: "People", icon: "people", room: lazyRoom(() => import("./rooms/people")) },
      { paths: ["/jobs"], title: "Jobs", icon: "jobs", room: lazyRoom(() => import("./rooms/jobs")) },
    ],
  },
];

/** Rooms that no menu shows, because they are served beside a robot. */
const ALONE: readonly RoomEntry[] = [
  { paths: ["/operate"], title: "Operate", icon: "play", alone: true, room: lazyRoom(() => import("./rooms/operate")) },
];

export const ROOMS: readonly RoomEntry[] = [...GROUPS.flatMap((group) => group.rooms), ...ALONE];
