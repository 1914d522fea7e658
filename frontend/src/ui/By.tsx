// Whose name a change carries: asked once, kept in this browser.
import { useState } from "preact/hooks";
import { setName, storedName } from "../session";
import { TextField } from "./Field";

/** The name of whoever makes a change; every change that needs one shows it. */
export function ByField({ hint = "Recorded with the change." }: { hint?: string }) {
  const [text, setText] = useState(storedName);
  const change = (value: string): void => {
    setText(value);
    setName(value);
  };
  return <TextField label="Your name" value={text} onValue={change} hint={hint} />;
}
