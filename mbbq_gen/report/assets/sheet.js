"use strict";
// Counts the verdicts, stores them in the browser, so that they survive a reload, and saves them as CSV.
const sections = [...document.querySelectorAll("section")];
const store = "mbbq-gen:" + document.title;

function verdictOf(section) {
  const ticked = section.querySelector("input[type=radio]:checked");
  return {
    id: section.dataset.id,
    verdict: ticked ? ticked.value : "",
    right: section.querySelector("select").value,
    note: section.querySelector("input[type=text]").value,
    extractor: section.dataset.extractor,
  };
}

function cell(text) {
  const safe = /^[\s]*[=+\-@|%\uFF1D\uFF0B\uFF0D\uFF20]/.test(text) ? "'" + text : text;
  return '"' + safe.replace(/"/g, '""') + '"';
}

function csv(verdicts) {
  const names = ["id", "verdict", "right", "note", "extractor"];
  const rows = verdicts.filter((one) => one.verdict || one.right).map((one) => names.map((name) => cell(one[name])));
  return [names, ...rows].map((row) => row.join(",")).join("\r\n") + "\r\n";
}

function refresh() {
  const verdicts = sections.map(verdictOf);
  const judged = verdicts.filter((one) => one.verdict || one.right).length;
  sections.forEach((section, place) => {
    const { verdict, right } = verdicts[place];
    section.classList.toggle("judged", Boolean(verdict || right));
  });
  document.getElementById("count").textContent = judged + " of " + sections.length + " judged";
  try {
    localStorage.setItem(store, JSON.stringify(verdicts));
  } catch (error) {
    // A browser may not store anything for a local file; saving as CSV still works.
  }
}

function restore() {
  let kept = [];
  try {
    kept = JSON.parse(localStorage.getItem(store)) || [];
  } catch (error) {
    return;
  }
  const known = new Map(kept.map((one) => [one.id + " " + one.extractor, one]));
  for (const section of sections) {
    const one = known.get(section.dataset.id + " " + section.dataset.extractor);
    if (!one || !(one.verdict || one.right || one.note)) continue;
    for (const box of section.querySelectorAll("input[type=radio]")) box.checked = box.value === one.verdict;
    section.querySelector("select").value = one.right;
    section.querySelector("input[type=text]").value = one.note;
  }
}

function save() {
  const link = document.createElement("a");
  const url = URL.createObjectURL(new Blob(["\uFEFF" + csv(sections.map(verdictOf))], { type: "text/csv" }));
  link.href = url;
  link.download = "verdicts.csv";
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

restore();
refresh();
document.addEventListener("input", refresh);
document.getElementById("save").addEventListener("click", save);
