import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { ApiError } from "../core/api.ts";
import { setQuery } from "../core/location.ts";

interface FieldProps {
  readonly label: string;
  readonly name: string;
  readonly hint?: ComponentChildren;
  /** If the admin API refused this field, its message stands below it. */
  readonly error?: ApiError | null;
}

/** A labelled input. */
export function TextField({ label, hint, name, error = null, type = "text", onText, value, initial, list, ...rest }: TextFieldProps) {
  const id = useId();
  const mistake = mistakeOf(error, name);
  // The types only tell by it which roles are allowed, and none is set.
  const kind = type as "text";
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        name={name}
        type={kind}
        aria-invalid={mistake !== null}
        aria-describedby={hint === undefined && mistake === null ? undefined : `${id}-about`}
        value={value}
        defaultValue={initial}
        list={list}
        spellcheck={false}
        onInput={onText === undefined ? undefined : (event) => onText(event.currentTarget.value)}
        {...rest}
      />
      <FieldNote id={`${id}-about`} hint={hint} mistake={mistake} />
    </div>
  );
}

/** Searches a list. The text is in the address of the page, so that a reload or a link finds the same. */
export function SearchField({ value, placeholder }: { readonly value: string; readonly placeholder: string }) {
  return (
    <TextField
      label="Search"
      name="search"
      type="search"
      value={value}
      onText={(text) => setQuery({ search: text })}
      placeholder={placeholder}
    />
  );
}

export interface TextFieldProps extends FieldProps {
  readonly type?: "text" | "password" | "search" | "number" | "date" | "datetime-local";
  /** What the page keeps; `initial` is for a form that is read when it is sent. */
  readonly value?: string | undefined;
  readonly initial?: string | undefined;
  readonly onText?: (text: string) => void;
  readonly autoComplete?: string;
  readonly autoFocus?: boolean;
  readonly required?: boolean;
  readonly placeholder?: string;
  readonly minLength?: number;
  readonly min?: number;
  readonly step?: string;
  /** The id of a list of suggestions. */
  readonly list?: string;
}

export function TextArea({ label, hint, name, error = null, rows = 4, value, initial, onText, placeholder }: TextAreaProps) {
  const id = useId();
  const mistake = mistakeOf(error, name);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        name={name}
        rows={rows}
        placeholder={placeholder}
        value={value}
        defaultValue={initial}
        spellcheck={false}
        aria-invalid={mistake !== null}
        aria-describedby={hint === undefined && mistake === null ? undefined : `${id}-about`}
        onInput={onText === undefined ? undefined : (event) => onText(event.currentTarget.value)}
      />
      <FieldNote id={`${id}-about`} hint={hint} mistake={mistake} />
    </div>
  );
}

interface TextAreaProps extends FieldProps {
  readonly rows?: number;
  readonly value?: string | undefined;
  readonly initial?: string | undefined;
  readonly onText?: (text: string) => void;
  readonly placeholder?: string;
}

export function SelectField({ label, hint, name, options, value, initial, onChoose }: SelectFieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        name={name}
        value={value}
        aria-describedby={hint === undefined ? undefined : `${id}-about`}
        onChange={onChoose === undefined ? undefined : (event) => onChoose(event.currentTarget.value)}
      >
        {options.map(([one, text]) => (
          <option key={one} value={one} selected={one === initial}>
            {text}
          </option>
        ))}
      </select>
      <FieldNote id={`${id}-about`} hint={hint} mistake={null} />
    </div>
  );
}

interface SelectFieldProps extends FieldProps {
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly value?: string;
  readonly initial?: string;
  readonly onChoose?: (value: string) => void;
}

/** The API names a field inside of another with a dot: `limits.rpm`. */
function mistakeOf(error: ApiError | null, name: string): string | null {
  return error !== null && error.param === name ? error.message : null;
}

function FieldNote({ id, hint, mistake }: { readonly id: string; readonly hint: ComponentChildren; readonly mistake: string | null }) {
  if (mistake !== null) {
    return (
      <p class="mistake" id={id}>
        {mistake}
      </p>
    );
  }
  if (hint === undefined) return null;
  return (
    <p class="hint" id={id}>
      {hint}
    </p>
  );
}

/** Buttons of which one is pressed. */
export function Choice<Value extends string>({ label, options, value, onChoose }: ChoiceProps<Value>) {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {options.map(([one, text]) => (
        <button type="button" key={one} aria-pressed={one === value} onClick={() => onChoose(one)}>
          {text}
        </button>
      ))}
    </div>
  );
}

interface ChoiceProps<Value extends string> {
  readonly label: string;
  readonly options: readonly (readonly [value: Value, text: string])[];
  readonly value: Value;
  readonly onChoose: (value: Value) => void;
}
