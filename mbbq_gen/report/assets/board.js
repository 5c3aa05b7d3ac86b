"use strict";
// Makes the headings of the board's tables buttons that sort. Without this, the tables are as they were written.
(() => {
  const said = document.getElementById("sorted");
  const key = (row, place) => row.children[place].dataset.key;
  const compare = (one, other, sign, isNumber) => {
    if (one === "" || other === "") return (one === "") - (other === ""); // what has no number stands last, either way
    return sign * (isNumber ? Number(one) - Number(other) : one.localeCompare(other));
  };
  const sort = (table, heading, place) => {
    const isDown = heading.getAttribute("aria-sort") === "ascending";
    const isNumber = heading.classList.contains("number");
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    rows.sort((one, other) => compare(key(one, place), key(other, place), isDown ? -1 : 1, isNumber));
    body.append(...rows);
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    if (said) said.textContent = `Sorted by ${heading.textContent}, ${isDown ? "descending" : "ascending"}`;
  };
  for (const table of document.querySelectorAll("table.board")) {
    Array.from(table.tHead.rows[0].cells).forEach((heading, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(table, heading, place));
    });
  }
})();
// One language alone, in the pictures and the tables; the address says which: #board?language=tr.
(() => {
  const MARK = "#board?";
  const box = document.getElementById("language");
  if (!box) return;
  const show = () => {
    for (const one of document.querySelectorAll("[data-language]")) {
      one.classList.toggle("off", box.value !== "" && one.dataset.language !== box.value);
    }
    for (const mark of document.querySelectorAll("svg a[href^='#row-']")) {
      const row = document.getElementById(mark.getAttribute("href").slice(1));
      mark.classList.toggle("off", row.classList.contains("off"));
    }
  };
  const follow = () => {
    if (location.hash.startsWith(MARK)) box.value = new URLSearchParams(location.hash.slice(MARK.length)).get("language") || "";
    if (box.selectedIndex < 0) box.value = "";
    show();
  };
  box.addEventListener("change", () => {
    const chosen = new URLSearchParams({ language: box.value });
    history.replaceState(null, "", box.value ? MARK + chosen : "#");
    show();
  });
  window.addEventListener("hashchange", follow);
  follow();
})();
