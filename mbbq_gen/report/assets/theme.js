"use strict";
// Light or dark as the reader's system has it, or as chosen here; the choice is kept where the browser allows it.
(() => {
  const choice = document.getElementById("theme");
  if (!choice) return;
  const apply = (value) => {
    if (value) document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
  };
  try {
    choice.value = localStorage.getItem("mbbq-gen:theme") || "";
  } catch (error) {
    choice.value = "";
  }
  apply(choice.value);
  choice.addEventListener("change", () => {
    apply(choice.value);
    try {
      localStorage.setItem("mbbq-gen:theme", choice.value);
    } catch (error) {
      // A browser may refuse to keep anything for a file: the choice then holds for this page.
    }
  });
})();
