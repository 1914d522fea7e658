// A decision about a twin: accept, reject or roll back, with the name and the reason that the history keeps.
import { useState } from "preact/hooks";
import { post, useAction } from "../../api";
import { setName, storedName } from "../../session";
import { Button, CheckField, Dialog, ErrorBox, TextField, toast } from "../../ui";

export type Verb = "accept" | "reject" | "rollback";

interface Props {
  verb: Verb;
  /** The candidate's folder; none for a step back. */
  twin?: string;
  /** Held-out replay rejected it: accepting needs one more word. */
  refused?: string | null;
  onClose: () => void;
  onDone: () => void;
}

const TITLES: Record<Verb, string> = { accept: "Accept this twin", reject: "Reject this twin", rollback: "Roll back the twin" };
const LEADS: Record<Verb, string> = {
  accept: "It becomes the workspace's current twin: new data is generated in it, and policies are evaluated in it.",
  reject: "It stays where it is, marked as rejected. If it is the current twin, the one before becomes current again.",
  rollback: "The twin that was current before becomes current again. Nothing is deleted.",
};
const DONE: Record<Verb, string> = { accept: "The twin is current now", reject: "The twin is rejected", rollback: "The previous twin is current again" };

export function Decide({ verb, twin, refused, onClose, onDone }: Props) {
  const [by, setBy] = useState(storedName());
  const [reason, setReason] = useState("");
  const [override, setOverride] = useState(false);
  const action = useAction(() => post(`/api/twins/${verb}`, { ...(twin ? { twin } : {}), by, reason, ...(verb === "accept" && override ? { override } : {}) }));
  const held = Boolean(refused) && verb === "accept";
  const decide = async (): Promise<void> => {
    setName(by);
    if ((await action.run()) === null) return;
    toast(DONE[verb]);
    onDone();
    onClose();
  };
  const ready = by.trim() && reason.trim() && (!held || override);
  return (
    <Dialog
      open
      title={TITLES[verb]}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind={verb === "accept" ? "primary" : "danger"} disabled={!ready} busy={action.running} onClick={() => void decide()}>{TITLES[verb].split(" ").slice(0, verb === "rollback" ? 2 : 1).join(" ")}</Button>
        </>
      }
    >
      <div class="stack">
        <p>{LEADS[verb]}</p>
        {twin && <p><code>{twin}</code></p>}
        {held && <p class="twin-refused">Held-out replay rejected it: {refused}</p>}
        {held && <CheckField label="Accept it all the same" checked={override} onValue={setOverride} />}
        <TextField label="Your name" value={by} onValue={setBy} />
        <TextField label="Reason" value={reason} onValue={setReason} hint="Stored in the history, shown by twinloop twin versions." />
        <ErrorBox error={action.error} />
      </div>
    </Dialog>
  );
}
