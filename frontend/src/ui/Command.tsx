import { toast } from "./Toast";
import { Button } from "./Button";

/** A command line with a button that copies it. */
export function Command({ text }: { text: string }) {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      toast("Copied");
    } catch {
      toast("This browser does not allow copying", { tone: "bad" });
    }
  };
  return (
    <div class="command">
      <code>{text}</code>
      <Button kind="quiet" small icon="copy" aria-label="Copy the command" onClick={() => void copy()} />
    </div>
  );
}
