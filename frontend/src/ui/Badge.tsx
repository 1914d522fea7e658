import type { ComponentChildren } from "preact";

export type Tone = "neutral" | "good" | "bad" | "warn" | "accent" | "real" | "sim" | "standin";

/** A short state or category; `dot` leaves out the background. */
export function Badge({ tone = "neutral", dot = false, title, children }: { tone?: Tone; dot?: boolean; title?: string; children: ComponentChildren }) {
  return (
    <span class={`badge badge-${tone}${dot ? " badge-dot" : ""}`} title={title}>
      {children}
    </span>
  );
}

/** The tone of an episode's source: `real`, `sim` or `standin`. */
export function sourceTone(source: string | null | undefined): Tone {
  return source === "real" || source === "sim" || source === "standin" ? source : "neutral";
}

const SOURCES: Record<string, string> = { real: "robot", sim: "simulation", standin: "stand-in" };

/** Where an episode comes from, in words. */
export function SourceBadge({ source }: { source: string | null | undefined }) {
  return <Badge tone={sourceTone(source)}>{source ? (SOURCES[source] ?? source) : "unknown"}</Badge>;
}

/** Success, failure with its mode, or not known yet. */
export function OutcomeBadge({ success, failure }: { success: boolean | null | undefined; failure?: string | null | undefined }) {
  if (success === true) return <Badge tone="good">success</Badge>;
  if (success === false) return <Badge tone="bad">{failure ?? "failure"}</Badge>;
  return <Badge>unlabelled</Badge>;
}
