// Draws the Mermaid blocks of a page, in the colours of the reader's screen; without it they stay text.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight-mermaid pre")) {
    const picture = document.createElement("pre");
    picture.className = "mermaid";
    picture.textContent = block.textContent;
    block.closest(".highlight-mermaid").replaceWith(picture);
  }
  const dark = document.body.dataset.theme === "dark"
    || (document.body.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  mermaid.initialize({ startOnLoad: false, theme: dark ? "dark" : "default" });
  mermaid.run();
});
