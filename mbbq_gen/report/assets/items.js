"use strict";
// The browser of items: filters, pages of twenty, and details of an item. Items are in the page itself or come from
// its server. Texts become text nodes and are never parsed as HTML.
(() => {
  const PAGE = 20;
  const list = document.getElementById("items");
  if (!list) return;
  const form = document.getElementById("filters");
  const status = document.getElementById("count");
  const [back, on] = ["back", "on"].map((id) => document.getElementById(id));
  const KINDS = ["", "mark", "left-out"];
  // The filters are part of the address: #browse?language=tr&outcome=refusal.
  const MARK = "#browse?";
  let first = 0;
  let latestRequest = 0;

  // --- sources of items ---

  function jsonOf(id) {
    const found = document.getElementById(id);
    return found ? JSON.parse(found.textContent) : null;
  }

  // The items of a page are compressed; they are decompressed once, at first use.
  async function unpacked(element) {
    const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
    if (!("DecompressionStream" in window)) throw new Error("this browser can't unpack them; a newer one can");
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }

  function inPage(data, packed) {
    let cached = null;
    const items = () => (cached = cached || unpacked(packed));
    const matches = (item, filters) =>
      Object.entries(filters).every(([name, value]) =>
        name === "id" ? item.prompt_id.startsWith(value) : String(item[name]) === value);
    return {
      runs: data.runs,
      languages: data.languages,
      async values() {
        const all = await items();
        const found = {};
        for (const box of form.querySelectorAll("select")) {
          const counts = new Map();
          for (const item of all) counts.set(String(item[box.name]), (counts.get(String(item[box.name])) || 0) + 1);
          found[box.name] = [...counts].sort(([one], [other]) => (one < other ? -1 : 1));
        }
        return found;
      },
      async page(filters, offset) {
        const found = (await items()).filter((item) => matches(item, filters));
        return { total: found.length, items: found.slice(offset, offset + PAGE) };
      },
    };
  }

  function onServer(data) {
    const get = async (path) => {
      const response = await fetch(path, { credentials: "omit", cache: "no-store" });
      if (!response.ok) throw new Error(await response.text());
      return response.json();
    };
    return {
      runs: data.runs,
      languages: data.languages,
      values: () => get("values"),
      page: (filters, offset) => get("items?" + new URLSearchParams({ ...filters, offset, limit: PAGE })),
    };
  }

  const data = jsonOf("item-page");
  const source = data ? inPage(data, document.getElementById("item-data")) : onServer(jsonOf("item-server"));

  // --- elements ---

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  function textOf(pieces) {
    return pieces.map(([text, kind]) =>
      kind === 1 ? make("mark", {}, text) : kind === 2 ? make("span", { class: "left-out" }, text) : text);
  }

  const plain = (code) => String(code).replaceAll("_", " ");
  const languageName = (code) => (source.languages[code] ? source.languages[code] + " (" + code + ")" : code);

  function valueText(name, value) {
    if (name === "language") return languageName(value);
    if (name === "run") return source.runs[Number(value)].name;
    return name === "template" || name === "variant" ? value : plain(value);
  }

  function words(item, tag, pieces, attributes) {
    return make(tag, { lang: item.language, dir: "auto", ...attributes }, ...textOf(pieces));
  }

  function optionOf(item, option) {
    const tags = [plain(option.role)];
    if (option.right) tags.push("correct");
    if (option.chosen) tags.push("chosen");
    return make("li", { class: option.chosen ? "chosen" : null },
      make("span", { class: "label" }, option.label), " ", words(item, "span", option.text, { class: "option" }), " ",
      ...tags.map((tag) => make("span", { class: "tag" }, tag)));
  }

  function line(term, ...text) {
    return [make("dt", {}, term), make("dd", {}, ...text)];
  }

  function quoted(text) {
    return /^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\"'\"'") + "'";
  }

  function facts(item) {
    const run = source.runs[item.run || 0];
    const command = "mbbq-gen explain " + quoted(run.folder) + " " + item.prompt_id;
    const chosen = item.options.find((option) => option.chosen);
    return make("dl", { class: "facts" },
      ...line("parsed as", plain(item.outcome) + (chosen ? ", option " + chosen.label : "")),
      ...line("reason", item.why + " (rule " + item.rule + ", confidence " + item.confidence + ")"),
      ...(item.conflicts.length ? line("conflicts", item.conflicts.join(", ")) : []),
      ...line("correct", item.correct),
      ...line("chosen role", plain(item.role)),
      ...line("flips across prompt variants and option orders", item.flipped),
      ...line("question", item.key + ", " + item.condition + ", " + plain(item.polarity) + ", " + item.split),
      ...line("prompt variant and labels", item.variant + ", " + item.label_style),
      ...(item.reasoning_effort !== "none" ? line("reasoning effort", item.reasoning_effort) : []),
      ...line("template", item.template + " (" + plain(item.category) + ")"),
      ...(source.runs.length > 1 ? line("run", run.name) : []),
      ...line("full explanation", make("code", {}, command)),
      ...line("link to this answer", make("a", { class: "to-items", href: MARK + new URLSearchParams({ ...(source.runs.length > 1 ? { run: item.run } : {}), id: item.prompt_id }) }, "link")));
  }

  function reasoningOf(item) {
    const reasoning = item.reasoning;
    if (!reasoning) return null;
    const conclusion = !reasoning.parsed ? "" : reasoning.option === null ? ", no conclusion"
      : ", concludes option " + item.options[reasoning.option].label;
    const stances = reasoning.stances.map((name) => make("span", { class: "tag" }, plain(name)));
    return make("details", { class: "reasoning" },
      make("summary", {}, "Reasoning (" + reasoning.characters.toLocaleString("en") + " characters" + conclusion + ") ", ...stances),
      make("pre", { dir: "auto", tabindex: "0", role: "group", "aria-label": "Reasoning" }, ...textOf(reasoning.text)));
  }

  function bodyOf(item) {
    const parts = [
      make("h3", {}, "Question"),
      item.no_context ? make("p", { class: "note" }, "The context was left out of what was sent.") : null,
      words(item, "p", item.context),
      words(item, "p", item.question),
      make("ol", { class: "options" }, ...item.options.map((option) => optionOf(item, option))),
      reasoningOf(item),
      make("h3", {}, "Response"),
      item.missing ? make("p", { class: "note" }, "No response: " + item.missing) : null,
      item.response.length
        ? words(item, "pre", item.response, { tabindex: "0", role: "group", "aria-label": "Response" })
        : make("p", { class: "note" }, "There is no text."),
      make("h3", {}, "Extraction"),
      facts(item),
    ];
    if (item.messages) {
      parts.push(make("h3", {}, "What was sent"), ...item.messages.flatMap((message) => [
        make("p", { class: "note" }, message.role),
        words(item, "pre", message.content, { tabindex: "0", role: "group", "aria-label": "Message" })]));
    }
    return make("div", { class: "item" }, ...parts);
  }

  function beginning(item) {
    const text = item.response.map(([piece]) => piece).join("").replace(/\s+/g, " ").trim();
    return text ? text.slice(0, 90) + (text.length > 90 ? "…" : "") : item.missing || "no text";
  }

  function entryOf(item) {
    const chose = item.role === "none" ? plain(item.outcome) : plain(item.role) + (item.correct === "yes" ? ", correct" : ", incorrect");
    const summary = make("summary", {},
      make("span", { class: "tag" }, chose), " ",
      make("span", { class: "where" }, [item.language, plain(item.category), item.condition, item.variant].join(" · ")), " ",
      make("bdi", { lang: item.language, class: "beginning" }, beginning(item)));
    const details = make("details", { "data-id": item.prompt_id }, summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) details.append(bodyOf(item));
    });
    return make("li", {}, details);
  }

  // --- filters and pages ---

  function filters() {
    const found = {};
    for (const [name, value] of new FormData(form)) if (value.trim()) found[name] = value.trim();
    return found;
  }

  async function show() {
    const request = ++latestRequest;
    let page;
    try {
      page = await source.page(filters(), first);
    } catch (error) {
      status.textContent = "The items can't be had: " + error.message;
      return;
    }
    if (request !== latestRequest) return; // there is a later request
    list.replaceChildren(...page.items.map(entryOf));
    list.start = first + 1;
    if (page.total === 1) list.querySelector("details").open = true;
    const last = first + page.items.length;
    status.textContent = page.total
      ? "Items " + (first + 1).toLocaleString("en") + " to " + last.toLocaleString("en") + " of " + page.total.toLocaleString("en")
      : "No item is like that.";
    back.disabled = first === 0;
    on.disabled = last >= page.total;
  }

  function turn(pages) {
    first = Math.max(0, first + pages * PAGE);
    show().then(() => status.focus());
  }

  async function fill() {
    const values = await source.values();
    for (const box of form.querySelectorAll("select")) {
      box.closest("p").hidden = (values[box.name] || []).length < 2; // nothing to choose
      for (const [value, count] of values[box.name] || []) {
        box.append(make("option", { value }, valueText(box.name, value) + " (" + count.toLocaleString("en") + ")"));
      }
    }
  }

  // --- addresses ---

  function follow() {
    if (!location.hash.startsWith(MARK)) return false;
    form.reset();
    for (const [name, value] of new URLSearchParams(location.hash.slice(MARK.length))) {
      const run = name === "model" ? source.runs.findIndex((one) => one.name === value) : -1;
      const box = form.elements.namedItem(name === "model" ? "run" : name);
      if (box) box.value = name === "model" ? String(run) : value;
    }
    first = 0;
    show();
    document.getElementById("browse")?.scrollIntoView();
    status.focus({ preventScroll: true });
    return true;
  }

  function keep() {
    const chosen = new URLSearchParams(filters()).toString();
    history.replaceState(null, "", chosen ? MARK + chosen : "#browse");
  }

  function renew() {
    first = 0;
    keep();
    show();
  }

  // In the list, the arrows, Home and End go from item to item; Enter opens one.
  list.addEventListener("keydown", (event) => {
    if (!event.target.matches("#items > li > details > summary")) return;
    const all = [...list.querySelectorAll(":scope > li > details > summary")];
    const here = all.indexOf(event.target);
    const goal = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: all.length - 1 }[event.key];
    if (goal === undefined || !all[goal]) return;
    event.preventDefault();
    all[goal].focus();
  });
  form.addEventListener("change", (event) => { if (event.target.tagName === "SELECT") renew(); });
  form.addEventListener("input", (event) => { if (event.target.tagName === "INPUT") renew(); });
  form.addEventListener("reset", () => setTimeout(renew));
  form.addEventListener("submit", (event) => event.preventDefault());
  back.addEventListener("click", () => turn(-1));
  on.addEventListener("click", () => turn(1));
  window.addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    // A second click on the same link causes no hashchange event.
    const link = event.target.closest("a.to-items");
    if (link && link.getAttribute("href") === location.hash) follow();
  });
  fill().then(() => follow() || show(), (error) => { status.textContent = "The items can't be had: " + error.message; });
})();
