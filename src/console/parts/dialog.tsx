import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

/** The browser's own modal dialog: it keeps the focus inside, and Escape closes it. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  // The browser tells of a close later, when the page may show the next dialog already.
  const isReplaced = useRef(false);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      isReplaced.current = true;
      // Closing it gives the focus back to where it was.
      dialog?.close();
    };
  }, []);
  return (
    <dialog ref={element} aria-labelledby={id} onClose={() => isReplaced.current || onClose()}>
      <div class="inside">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** The buttons that end a form: one leaves everything as it was, the other sends the form, once at a time. */
export function FormActions({ action, busy, onCancel }: FormActionsProps) {
  return (
    <footer>
      <button type="button" class="button" onClick={onCancel}>
        Cancel
      </button>
      <button class="button main" disabled={busy}>
        {action}
      </button>
    </footer>
  );
}

interface FormActionsProps {
  readonly action: string;
  readonly busy: boolean;
  readonly onCancel: () => void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, children, action, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="stack">{children}</div>
      <footer>
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="button danger" onClick={onConfirm}>
          {action}
        </button>
      </footer>
    </Dialog>
  );
}

interface ConfirmProps extends DialogProps {
  readonly action: string;
  readonly onConfirm: () => void;
}
