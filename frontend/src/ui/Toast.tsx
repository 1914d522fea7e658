import { useEffect, useState } from "preact/hooks";
import { Icon } from "./Icon";

interface Message {
  id: number;
  text: string;
  tone: "good" | "bad";
  undo?: () => void;
}

const STAY_MS = 5000;
let messages: Message[] = [];
let next = 1;
let redraw: (() => void) | null = null;

function dismiss(id: number): void {
  messages = messages.filter((one) => one.id !== id);
  redraw?.();
}

/** Say in a corner what was done; `undo` adds a button. */
export function toast(text: string, options: { tone?: "good" | "bad"; undo?: () => void } = {}): void {
  const id = next++;
  messages = [...messages.slice(-2), { id, text, tone: options.tone ?? "good", ...(options.undo ? { undo: options.undo } : {}) }];
  window.setTimeout(() => dismiss(id), STAY_MS);
  redraw?.();
}

/** Where toasts appear; once, in the shell. */
export function Toasts() {
  const [, set] = useState(0);
  useEffect(() => {
    redraw = () => set((n) => n + 1);
    return () => {
      redraw = null;
    };
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.map((one) => (
        <div key={one.id} class={`toast toast-${one.tone}`}>
          <Icon name={one.tone === "good" ? "check" : "alert"} />
          <span>{one.text}</span>
          {one.undo && <button type="button" onClick={() => { one.undo?.(); dismiss(one.id); }}>Undo</button>}
        </div>
      ))}
    </div>
  );
}
