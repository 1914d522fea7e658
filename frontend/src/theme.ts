// Light, dark, or as the system has it; charts are drawn again when it changes.
import { useEffect, useState } from "preact/hooks";

export type Theme = "system" | "light" | "dark";

const KEY = "twinloop.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function storedTheme(): Theme {
  const value = window.localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}

export function isDark(): boolean {
  const theme = storedTheme();
  return theme === "dark" || (theme === "system" && system.matches);
}

function apply(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const listener of [...listeners]) listener();
}

export function setTheme(theme: Theme): void {
  if (theme === "system") window.localStorage.removeItem(KEY);
  else window.localStorage.setItem(KEY, theme);
  apply();
}

export function startTheme(): void {
  system.addEventListener("change", apply);
  apply();
}

/** Whether the page is dark now; draws again when that changes. */
export function useDark(): boolean {
  const [value, setValue] = useState(isDark);
  useEffect(() => {
    const update = (): void => setValue(isDark());
    listeners.add(update);
    return () => {
      listeners.delete(update);
    };
  }, []);
  return value;
}

/** A colour of the style sheet, such as `--accent`, as the browser would paint it now. */
export function colour(name: string): string {
  return window.getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
