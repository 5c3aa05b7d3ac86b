"use strict";
// Opens the section that the address names. Lists the answers that are packed in a report, or those of them that its
// address names: #browse?language=tr&outcome=refusal; the form changes the address.
(async () => {
  const STEP = 50, MARK = "#browse?";
  const [form, list, count, more, packed] =
    ["filters", "answers", "count", "more", "packed"].map((id) => document.getElementById(id));
  let answers = [], found = [];

  function add() { // the next of the answers found
    const next = found.slice(list.childElementCount, list.childElementCount + STEP);
    list.insertAdjacentHTML("beforeend", next.map(({ html }) => html).join("")); // escaped when the report was made
    count.textContent = found.length ? `${list.childElementCount} of ${found.length} answers` : "No answers.";
    more.hidden = list.childElementCount === found.length;
  }

  function filter(fields) {
    const wanted = [...fields].filter(([, value]) => value);
    found = answers.filter((one) => wanted.every(([field, value]) =>
      field === "id" ? one.prompt_id.startsWith(value) : one[field] === value));
    list.replaceChildren();
    add();
    return wanted;
  }

  function follow() {
    if (packed && location.hash.startsWith(MARK)) {
      form.reset();
      for (const [field, value] of filter(new URLSearchParams(location.hash.slice(MARK.length)))) {
        if (form.elements[field]) form.elements[field].value = value;
      }
      form.scrollIntoView();
      count.focus({ preventScroll: true });
    } else {
      const section = document.getElementById(location.hash.slice(1))?.closest("details");
      if (section) section.open = true;
    }
  }

  if (packed) {
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    answers = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () =>
      history.replaceState(null, "", MARK + new URLSearchParams(filter(new FormData(form)))));
    more.addEventListener("click", add);
    filter([]);
  }
  follow();
  window.addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => { // a second click on a link does not change the address
    if (event.target.closest("a")?.getAttribute("href") === location.hash) follow();
  });
})();
