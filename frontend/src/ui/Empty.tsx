import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./Icon";

/** What a room says when there is nothing to show: what is missing, why, and the step that makes it. */
export function Empty({ icon = "info", title, children, action }: { icon?: IconName; title: string; children?: ComponentChildren; action?: ComponentChildren }) {
  return (
    <div class="empty">
      <span class="empty-icon"><Icon name={icon} size={22} /></span>
      <h2>{title}</h2>
      {children && <div class="empty-words">{children}</div>}
      {action && <div class="empty-action">{action}</div>}
    </div>
  );
}

/** A place that is being filled: keeps its height so that nothing jumps. */
export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => <span key={i} class="skeleton" />)}
    </div>
  );
}
