import type { ComponentChildren, TargetedMouseEvent } from "preact";
import { Icon, type IconName } from "./Icon";

interface Props {
  kind?: "plain" | "primary" | "danger" | "quiet";
  icon?: IconName;
  busy?: boolean;
  small?: boolean;
  disabled?: boolean;
  type?: "button" | "submit";
  title?: string | undefined;
  class?: string;
  /** The key that does the same; shown, not bound. */
  hotkey?: string;
  "aria-label"?: string;
  "aria-expanded"?: boolean;
  "aria-pressed"?: boolean;
  onClick?: (event: TargetedMouseEvent<HTMLButtonElement>) => void;
  children?: ComponentChildren;
}

/** A button. One without text needs `aria-label`, which becomes its tooltip as well. */
export function Button({ kind = "plain", icon, busy = false, small = false, hotkey, children, disabled = false, type = "button", title, class: extra, ...rest }: Props) {
  const classes = ["button", `button-${kind}`, small && "button-small", !children && "button-icon", extra];
  return (
    <button type={type} title={title ?? rest["aria-label"]} {...rest} class={classes.filter(Boolean).join(" ")} disabled={disabled || busy} aria-busy={busy}>
      {busy ? <span class="spinner" aria-hidden="true" /> : icon && <Icon name={icon} />}
      {children && <span>{children}</span>}
      {hotkey && <kbd>{hotkey}</kbd>}
    </button>
  );
}
