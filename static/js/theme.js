// @ts-check
/** The three-way colour switch. The inline snippet in base.html applies the choice before the first paint. */

/** @type {NodeListOf<HTMLInputElement>} */
const choices = document.querySelectorAll("[data-theme-switch] input");

function stored() {
  try {
    return localStorage.getItem("theme") ?? "system";
  } catch {
    return "system"; // storage is off
  }
}

/** @param {string} theme */
function apply(theme) {
  const root = document.documentElement;
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  try {
    if (theme === "system") localStorage.removeItem("theme");
    else localStorage.setItem("theme", theme);
  } catch {
    /* storage is off: the choice lasts for this page */
  }
  document.dispatchEvent(new Event("themechange"));
}

for (const choice of choices) {
  choice.checked = choice.value === stored();
  choice.addEventListener("change", () => apply(choice.value));
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.dispatchEvent(new Event("themechange"));
});
