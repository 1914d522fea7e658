import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";

export interface Tab {
  key: string;
  title: string;
  /** A number beside the title. */
  count?: number | null;
}

/** Tabs with arrow keys; `children` is the panel of the selected one. */
export function Tabs({ tabs, selected, onSelect, label, children }: { tabs: readonly Tab[]; selected: string; onSelect: (key: string) => void; label: string; children?: ComponentChildren }) {
  const id = useId();
  const bar = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (tabs.findIndex((tab) => tab.key === selected) + step + tabs.length) % tabs.length;
    onSelect(tabs[next]?.key ?? selected);
    bar.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <div class="tabs">
      <div class="tab-bar" role="tablist" aria-label={label} ref={bar} onKeyDown={move}>
        {tabs.map((tab) => (
          <button key={tab.key} type="button" role="tab" id={`${id}-${tab.key}`} aria-selected={tab.key === selected} aria-controls={`${id}-panel`} tabIndex={tab.key === selected ? 0 : -1} onClick={() => onSelect(tab.key)}>
            {tab.title}
            {tab.count !== undefined && tab.count !== null && <span class="tab-count">{tab.count}</span>}
          </button>
        ))}
      </div>
      {children !== undefined && <div class="tab-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${selected}`}>{children}</div>}
    </div>
  );
}

/** A few exclusive choices side by side, such as a speed or a range. */
export function Segmented({ label, options, value, onValue }: { label: string; options: readonly { value: string; label: ComponentChildren; title?: string }[]; value: string; onValue: (value: string) => void }) {
  return (
    <div class="segmented" role="radiogroup" aria-label={label}>
      {options.map((one) => (
        <button key={one.value} type="button" role="radio" aria-checked={one.value === value} title={one.title} onClick={() => onValue(one.value)}>
          {one.label}
        </button>
      ))}
    </div>
  );
}
