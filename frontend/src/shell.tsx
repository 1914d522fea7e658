// The frame around every room: menu, name, theme, running jobs, and whether the server is there.
import { useEffect, useState } from "preact/hooks";
import { useConnected } from "./events";
import { GROUPS, ROOMS, type RoomEntry } from "./rooms";
import { go, Link, match, useLocation } from "./router";
import { setName, useName, useSession } from "./session";
import { setTheme, storedTheme, type Theme } from "./theme";
import { Button } from "./ui/Button";
import { Dialog } from "./ui/Dialog";
import { Empty } from "./ui/Empty";
import { TextField } from "./ui/Field";
import { Icon, type IconName } from "./ui/Icon";
import { Page } from "./ui/Page";
import { Toasts } from "./ui/Toast";

function findRoom(path: string): { entry: RoomEntry; params: Record<string, string> } | null {
  for (const entry of ROOMS) {
    for (const pattern of entry.paths) {
      const params = match(pattern, path);
      if (params) return { entry, params };
    }
  }
  return null;
}

function MenuLink({ entry, current }: { entry: RoomEntry; current: boolean }) {
  return (
    <Link href={entry.paths[0]} class="menu-link" aria-current={current ? "page" : undefined} onMouseEnter={() => void entry.room.preload()} onFocus={() => void entry.room.preload()} title={entry.title}>
      <Icon name={entry.icon} />
      <span>{entry.title}</span>
    </Link>
  );
}

function ThemeButton() {
  const [theme, set] = useState<Theme>(storedTheme);
  const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
  const icons: Record<Theme, IconName> = { system: "system", light: "sun", dark: "moon" };
  const change = (): void => {
    set(next[theme]);
    setTheme(next[theme]);
  };
  return <Button kind="quiet" small icon={icons[theme]} aria-label={`Theme: ${theme}. Change to ${next[theme]}`} onClick={change} />;
}

function NameButton() {
  const name = useName();
  const [open, setOpen] = useState(false);
  const [text, setText] = useState(name);
  const save = (event: Event): void => {
    event.preventDefault();
    setName(text);
    setOpen(false);
  };
  return (
    <>
      <button type="button" class="menu-link menu-name" onClick={() => { setText(name); setOpen(true); }} title="The name that your labels and decisions carry">
        <Icon name="user" />
        <span>{name || "Set your name"}</span>
      </button>
      <Dialog title="Your name" open={open} onClose={() => setOpen(false)}>
        <form onSubmit={save} class="stack">
          <TextField label="Name" value={text} onValue={setText} hint="Labels, promotions and plans carry it. It stays in this browser until you use it." autofocus />
          <div class="row row-end"><Button kind="primary" type="submit">Save</Button></div>
        </form>
      </Dialog>
    </>
  );
}

function Menu({ path }: { path: string }) {
  const session = useSession();
  const connected = useConnected();
  const found = findRoom(path)?.entry;
  const here = found?.within ?? found?.paths[0];
  return (
    <nav class="menu" aria-label="Rooms">
      <Link href="/overview" class="brand" title="Overview">
        <img src="/icon.svg" width={22} height={22} alt="" />
        <span class="brand-words"><strong>{session?.workspace ?? "Twinloop"}</strong><small>Twinloop Studio</small></span>
      </Link>
      <div class="menu-rooms">
        {GROUPS.map((group) => (
          <div key={group.title} class="menu-group">
            {group.title && <h2>{group.title}</h2>}
            {group.rooms.filter((entry) => !entry.within).map((entry) => <MenuLink key={entry.title} entry={entry} current={entry.paths[0] === here} />)}
          </div>
        ))}
      </div>
      <div class="menu-foot">
        {!connected && <p class="menu-note menu-offline" role="status"><Icon name="alert" /><span>Reconnecting …</span></p>}
        {session?.read_only && <p class="menu-note" title="Nothing can be changed here"><Icon name="lock" /><span>Read-only</span></p>}
        <NameButton />
        <div class="menu-tools">
          <small class="version">{session ? `v${session.version}` : ""}</small>
          <ThemeButton />
        </div>
      </div>
    </nav>
  );
}

const JUMPS: Record<string, string> = { o: "/overview", d: "/data", t: "/twin", i: "/identify", g: "/gap", c: "/coverage", l: "/plan", p: "/policies", q: "/gate", m: "/monitor", h: "/people", j: "/jobs" };

const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));

/** `g` and then a letter goes to a room, as in other tools with many pages. */
function useJumps(): void {
  useEffect(() => {
    let armed = 0;
    const key = (event: KeyboardEvent): void => {
      if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
      const to = Date.now() - armed < 1200 ? JUMPS[event.key] : undefined;
      armed = 0;
      if (to) {
        event.preventDefault();
        event.stopPropagation();
        go(to);
      } else if (event.key === "g") armed = Date.now();
    };
    window.addEventListener("keydown", key, true);
    return () => window.removeEventListener("keydown", key, true);
  }, []);
}

export function Shell() {
  const { path } = useLocation();
  useJumps();
  const found = findRoom(path);
  useEffect(() => {
    document.title = found ? `${found.entry.title} · Twinloop Studio` : "Twinloop Studio";
    document.getElementById("main")?.scrollTo(0, 0);
  }, [path]);
  const Room = found?.entry.room.Room;
  if (Room && found?.entry.alone) {
    return (
      <div class="shell-alone">
        <main id="main" tabIndex={-1}><Room params={found.params} /></main>
        <Toasts />
      </div>
    );
  }
  return (
    <div class="shell">
      <a class="skip" href="#main">Skip to the page</a>
      <Menu path={path} />
      <main id="main" tabIndex={-1}>
        {Room && found ? <Room key={found.entry.title} params={found.params} /> : <Lost />}
      </main>
      <Toasts />
    </div>
  );
}

function Lost() {
  return (
    <Page title="Not found">
      <Empty icon="search" title="There is no room at this address" action={<Link class="button button-plain" href="/overview">Go to the overview</Link>}>
        The address may be from another version of the studio.
      </Empty>
    </Page>
  );
}
