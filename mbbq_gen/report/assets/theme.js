"use strict";
// The light or dark theme: that of the system, or as chosen; the choice is stored if the browser allows it.
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
      // A browser may not store anything for a local file; the choice then applies to this page view only.
    }
  });
})();
