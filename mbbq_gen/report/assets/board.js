"use strict";
// Sort buttons in the headings of the leaderboard's tables.
(() => {
  const status = document.getElementById("sorted");
  const key = (row, place) => row.children[place].dataset.key;
  const compare = (one, other, sign, isNumber) => {
    if (one === "" || other === "") return (one === "") - (other === ""); // missing values are last in both directions
    return sign * (isNumber ? Number(one) - Number(other) : one.localeCompare(other));
  };
  const sort = (table, heading, place) => {
    const isDescending = heading.getAttribute("aria-sort") === "ascending";
    const isNumber = heading.classList.contains("number");
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    rows.sort((one, other) => compare(key(one, place), key(other, place), isDescending ? -1 : 1, isNumber));
    body.append(...rows);
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    if (status) status.textContent = `Sorted by ${heading.textContent}, ${isDescending ? "descending" : "ascending"}`;
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
// The filter by language of charts and tables; the address has the language: #board?language=tr.
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
