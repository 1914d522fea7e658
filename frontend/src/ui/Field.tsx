import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  error?: string | null | undefined;
  /** Keep the label for screen readers only. */
  hideLabel?: boolean | undefined;
  children: (ids: { id: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => ComponentChildren;
}

/** A label, a control, and what is wrong with it. */
export function Field({ label, hint, error, hideLabel = false, children }: FieldProps) {
  const id = useId();
  const described = error || hint ? { "aria-describedby": `${id}-note` } : {};
  return (
    <div class="field">
      <label for={id} class={hideLabel ? "hidden" : undefined}>{label}</label>
      {children({ id, ...described, ...(error ? { "aria-invalid": true } : {}) })}
      {error ? <p class="field-error" id={`${id}-note`}>{error}</p> : hint && <p class="field-hint" id={`${id}-note`}>{hint}</p>}
    </div>
  );
}

type Shared = Pick<FieldProps, "label" | "hint" | "error" | "hideLabel">;
interface InputProps extends Shared {
  value: string;
  onValue: (value: string) => void;
  type?: "text" | "number" | "search";
  placeholder?: string;
  min?: number;
  max?: number;
  step?: number | "any";
  disabled?: boolean;
  autofocus?: boolean;
  list?: string;
  onKeyDown?: (event: KeyboardEvent) => void;
}

/** A labelled line of text or number. */
export function TextField({ label, hint, error, hideLabel, onValue, type = "text", ...rest }: InputProps) {
  return (
    <Field label={label} hint={hint} error={error} hideLabel={hideLabel}>
      {(ids) => <input type={type} class="input" autocomplete="off" {...rest} {...ids} onInput={(event) => onValue(event.currentTarget.value)} />}
    </Field>
  );
}

export interface Option {
  value: string;
  label?: string;
}

type SelectProps = Shared & { value: string; onValue: (value: string) => void; options: readonly (Option | string)[]; disabled?: boolean };

/** A labelled choice. */
export function SelectField({ label, hint, error, hideLabel, value, onValue, options, disabled = false }: SelectProps) {
  return (
    <Field label={label} hint={hint} error={error} hideLabel={hideLabel}>
      {(ids) => (
        <span class="select">
          <select {...ids} value={value} disabled={disabled} onChange={(event) => onValue(event.currentTarget.value)}>
            {options.map((one) => {
              const option = typeof one === "string" ? { value: one } : one;
              return <option key={option.value} value={option.value}>{option.label ?? option.value}</option>;
            })}
          </select>
        </span>
      )}
    </Field>
  );
}

/** A labelled yes or no. */
export function CheckField({ label, checked, onValue, disabled = false }: { label: ComponentChildren; checked: boolean; onValue: (value: boolean) => void; disabled?: boolean }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} disabled={disabled} onChange={(event) => onValue(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}
