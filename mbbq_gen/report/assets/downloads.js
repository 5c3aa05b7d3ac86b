"use strict";
// Downloads of charts: SVG with the colours of the screen, PNG of that at twice the size, CSV from the page.
(() => {
  const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "opacity", "font-family", "font-size", "font-style", "font-weight", "text-anchor", "paint-order"];
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const found = document.getElementById("tables");
  const tables = found ? JSON.parse(found.textContent) : {};

  // The drawing without the page: computed styles become attributes; links are removed.
  function standalone(drawing) {
    const copy = drawing.cloneNode(true);
    const [shown, own] = [drawing, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    const hidden = [];
    shown.forEach((element, place) => {
      const style = getComputedStyle(element);
      if (style.display === "none") hidden.push(own[place]);
      if (element.localName === "a") own[place].removeAttribute("href");
      own[place].removeAttribute("class");
      if (!["title", "desc", "defs"].includes(element.localName)) {
        for (const name of STYLES) own[place].setAttribute(name, style.getPropertyValue(name));
      }
    });
    hidden.filter((element) => !["title", "desc", "defs"].includes(element.localName)).forEach((element) => element.remove());
    const box = drawing.viewBox.baseVal;
    const background = document.createElementNS(NAMESPACE, "rect");
    const place = { x: box.x, y: box.y, width: box.width, height: box.height };
    for (const [name, value] of Object.entries({ ...place, fill: getComputedStyle(document.body).backgroundColor })) {
      background.setAttribute(name, value);
    }
    copy.prepend(background);
    copy.setAttribute("xmlns", NAMESPACE);
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    return { text: new XMLSerializer().serializeToString(copy), width: box.width, height: box.height };
  }

  async function png({ text, width, height }) {
    const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    try {
      const image = new Image();
      image.src = address;
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      return await new Promise((done) => canvas.toBlob(done, "image/png"));
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  function button(figure, kind, make) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = kind;
    made.setAttribute("aria-label", `Download as ${kind}: ${figure.querySelector("h3, figcaption").textContent.trim().slice(0, 80)}`);
    made.addEventListener("click", async () => save(await make(), `${figure.dataset.file}.${kind.toLowerCase()}`));
    figure.querySelector(".tools").append(" ", made);
  }

  for (const figure of document.querySelectorAll("figure[data-file]")) {
    const drawing = figure.querySelector(".drawing > svg");
    if (drawing) {
      button(figure, "SVG", () => new Blob([standalone(drawing).text], { type: "image/svg+xml" }));
      button(figure, "PNG", () => png(standalone(drawing)));
    }
    const table = tables[figure.dataset.file];
    if (table) button(figure, "CSV", () => new Blob(["\ufeff", table], { type: "text/csv" }));
  }
})();
