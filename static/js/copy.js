// @ts-check
/** Copy buttons beside command lines and links. */

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = button.parentElement?.querySelector("[data-copy-source]");
    const label = button.firstChild;
    if (!source || !label) return;
    try {
      await navigator.clipboard.writeText(source.textContent ?? "");
      label.textContent = "Copied";
    } catch {
      getSelection()?.selectAllChildren(source); // no clipboard here: the text is selected instead
      label.textContent = "Press Ctrl+C";
    }
    setTimeout(() => (label.textContent = "Copy"), 2000);
  });
}
