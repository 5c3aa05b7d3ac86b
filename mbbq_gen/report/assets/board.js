"use strict";
// Sort buttons in the headings of the leaderboard's tables. Numbers are sorted by size, without their sign.
(() => {
  const status = document.getElementById("sorted");
  const size = (text) => Math.abs(parseFloat(text.replace(/[(,]/g, "")));
  const compare = (one, other, sign, isNumber) => {
    if (!isNumber) return sign * one.localeCompare(other);
    const [first, second] = [size(one), size(other)];
    if (isNaN(first) || isNaN(second)) return isNaN(first) - isNaN(second); // missing values are last in both directions
    return sign * (first - second);
  };
  const sort = (table, heading, place) => {
    const isDescending = heading.getAttribute("aria-sort") === "ascending";
    const isNumber = heading.classList.contains("number");
    const text = (row) => row.children[place].textContent;
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((one, other) => compare(text(one), text(other), isDescending ? -1 : 1, isNumber));
    table.tBodies[0].append(...rows);
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    status.textContent = `Sorted by ${heading.textContent}, ${isDescending ? "descending" : "ascending"}`;
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
