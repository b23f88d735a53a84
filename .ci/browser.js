// What `.ci/browser` asks of a page, as it is laid out: each question that is answered wrongly is a line of the element `tried`.
const wrong = [];
const ask = (holds, what) => holds || wrong.push(what);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const seen = (element) => element.checkVisibility() && element.getBoundingClientRect().height > 0;

// Brightness as WCAG 2 defines it, and the contrast of a text with what is behind it.
const brightness = (color) => {
  const [r, g, b] = color.match(/[\d.]+/g).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const background = (element) => {
  const color = getComputedStyle(element).backgroundColor;
  return color === "rgba(0, 0, 0, 0)" && element.parentElement ? background(element.parentElement) : color;
};
const contrast = (element) => {
  const [low, high] = [brightness(getComputedStyle(element).color), brightness(background(element))].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};

const kernels = all("body > details");
const promised = Number(document.querySelector("p").textContent.match(/(\d+) kernels/)?.[1]);
ask(all("h1, h2").map((h) => h.textContent).slice(1).join() === "Kernels,Workspace,Arrays", "headings");
ask(kernels.length === promised && promised > 0, `${kernels.length} of ${promised} kernels`);

for (const kernel of kernels) {
  for (const details of [kernel, kernel.querySelector("details")]) {
    const name = `${kernel.id}, ${details.querySelector("summary").textContent}`;
    const inside = details.querySelector(":scope > pre");
    ask(!details.open && !seen(inside), `${name}: open before anybody asked`);
    details.querySelector("summary").click();
    ask(details.open && seen(inside) && inside.textContent.trim() !== "", `${name}: does not open`);
  }
}

const picture = document.querySelector("svg")?.getBoundingClientRect();
const arrays = all("svg rect");
ask(!picture || arrays.length > 0, "a picture without arrays");
for (const array of arrays) {
  const box = array.getBoundingClientRect();
  const name = array.querySelector("title").textContent;
  const inside = box.left >= picture.left - 1 && box.right <= picture.right + 1 && box.top >= picture.top - 1 && box.bottom <= picture.bottom + 1;
  ask(box.width > 0 && box.height > 0, `${name}: nothing is drawn`);
  ask(inside, `${name}: outside of the picture`);
  ask(getComputedStyle(array).fill !== "none", `${name}: no colour`);
}

const rows = all("tr");
ask(rows.length > 1 && rows.every((row) => row.children.length === rows[0].children.length), "cells of the table");
for (const element of all("h1, h2, p, summary, span, pre, li, th, td")) {
  const found = contrast(element);
  ask(found >= 4.5, `contrast ${found.toFixed(1)} of "${element.textContent.slice(0, 30)}"`);
}
// Long lines scroll where they stand; the page itself does not scroll sideways.
ask(document.documentElement.scrollWidth <= innerWidth, `${document.documentElement.scrollWidth} pixels wide, of ${innerWidth}`);
ask(performance.getEntriesByType("resource").length === 0, "something is fetched");

const tried = document.createElement("output");
tried.id = "tried";
const few = [...new Set(wrong)].slice(0, 8).join("; ");
tried.textContent = few || `as it should be: ${kernels.length} kernels, ${arrays.length} ranges, ${rows.length - 1} arrays`;
document.body.append(tried);
