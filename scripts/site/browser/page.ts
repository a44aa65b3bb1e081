/** What every page does: `/` goes to the search, and blocks of code can be copied. Without scripts the pages work as well. */
const search = document.querySelector<HTMLInputElement>("input[type=search]");

document.addEventListener("keydown", (event) => {
  const { target } = event;
  const types = target instanceof HTMLInputElement;
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || types) return;
  event.preventDefault();
  search?.focus();
});

for (const button of document.querySelectorAll<HTMLButtonElement>("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const code = button.parentElement?.querySelector("code");
    if (code !== null && code !== undefined)
      copy(code).then(
        (done) => say(button, done),
        () => say(button, false),
      );
  });
}

/** A page that was opened as a file may not have the clipboard: then the text is selected, to be copied by hand. */
async function copy(code: Element): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(code.textContent ?? "");
    return true;
  } catch {
    getSelection()?.selectAllChildren(code);
    return false;
  }
}

function say(button: HTMLButtonElement, done: boolean): void {
  button.textContent = done ? "Copied" : "Selected";
  setTimeout(() => (button.textContent = "Copy"), 2_000);
}
