// A formula that is wider than its box can be scrolled by the keyboard too.
window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(() => {
  for (const box of document.querySelectorAll("mjx-container[display='true'], div.math")) {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
  }
}));
