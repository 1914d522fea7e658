// The frame of a room: one head, and cards below it.
import type { ComponentChildren } from "preact";
import { Link } from "../router";
import { Icon } from "./Icon";

/** A room's page: its title, what it says about itself, its buttons, and its content. */
export function Page({ title, lead, back, actions, children, full = false }: { title: ComponentChildren; lead?: ComponentChildren; back?: { href: string; title: string }; actions?: ComponentChildren; children: ComponentChildren; full?: boolean }) {
  return (
    <div class={full ? "page page-full" : "page"}>
      <header class="page-head">
        <div class="page-title">
          {back && <Link class="page-back" href={back.href}><Icon name="chevronLeft" size={14} />{back.title}</Link>}
          <h1>{title}</h1>
          {lead && <p class="page-lead">{lead}</p>}
        </div>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      <div class="page-body">{children}</div>
    </div>
  );
}

/** A titled part of a page. */
export function Card({ title, note, actions, children, flush = false }: { title?: ComponentChildren; note?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; flush?: boolean }) {
  return (
    <section class={flush ? "card card-flush" : "card"}>
      {(title || actions) && (
        <header class="card-head">
          <div>
            {title && <h2>{title}</h2>}
            {note && <p class="card-note">{note}</p>}
          </div>
          {actions && <div class="row">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}
