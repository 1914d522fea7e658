import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Button } from "./Button";

interface Props {
  title: string;
  open: boolean;
  onClose: () => void;
  children: ComponentChildren;
  /** Buttons, the one that acts last. */
  footer?: ComponentChildren;
  wide?: boolean;
}

/** A modal dialog: the browser keeps the focus inside and closes it with Escape. */
export function Dialog({ title, open, onClose, children, footer, wide = false }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  if (!open) return null;
  return (
    <dialog ref={element} class={wide ? "dialog dialog-wide" : "dialog"} aria-labelledby={id} onClose={onClose} onClick={(event) => event.target === element.current && onClose()}>
      <div class="dialog-body">
        <header>
          <h2 id={id}>{title}</h2>
          <Button kind="quiet" small icon="close" aria-label="Close" onClick={onClose} />
        </header>
        <div class="dialog-content">{children}</div>
        {footer && <footer>{footer}</footer>}
      </div>
    </dialog>
  );
}
