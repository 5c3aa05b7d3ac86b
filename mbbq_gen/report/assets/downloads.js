"use strict";
// Downloads of charts: SVG with the colours of the screen, PNG of that at twice the size, CSV from the page.
(() => {
  const tables = JSON.parse(document.getElementById("tables")?.textContent ?? "{}");

  // The drawing without the page: its ink as colour, the page's background, no links.
  function standalone(drawing) {
    const copy = drawing.cloneNode(true);
    copy.setAttribute("color", getComputedStyle(drawing).color);
    copy.querySelectorAll("a").forEach((link) => link.replaceWith(...link.querySelectorAll("path")));
    const background = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const colour = getComputedStyle(document.body).backgroundColor;
    for (const [name, value] of Object.entries({ width: "100%", height: "100%", fill: colour })) background.setAttribute(name, value);
    copy.prepend(background);
    return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
  }

  async function png(drawing) {
    const image = new Image();
    image.src = URL.createObjectURL(standalone(drawing));
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  function button(figure, kind, make) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = kind;
    made.setAttribute("aria-label", `Download as ${kind}: ${figure.querySelector("h3, figcaption").textContent.trim().slice(0, 80)}`);
    made.addEventListener("click", async () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await make());
      link.download = `${figure.dataset.file}.${kind.toLowerCase()}`;
      link.click();
    });
    figure.querySelector(".tools").append(" ", made);
  }

  for (const figure of document.querySelectorAll("figure[data-file]")) {
    const drawing = figure.querySelector(".drawing > svg");
    if (drawing) {
      button(figure, "SVG", () => standalone(drawing));
      button(figure, "PNG", () => png(drawing));
    }
    const table = tables[figure.dataset.file];
    if (table) button(figure, "CSV", () => new Blob(["\ufeff", table], { type: "text/csv" }));
  }
})();
