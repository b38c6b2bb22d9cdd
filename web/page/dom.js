// Elements, made from names and texts. Whatever a model said becomes text, never markup: nothing
// here, or anywhere in the page, reads HTML out of a string.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (`on…` are listeners, null and false are left out) and children. */
export function el(name, attributes = {}, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

/** The same in a drawing. */
export function svg(name, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, name), attributes, children);
}

function furnish(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** Sets a text only where it is another, so that nothing is announced or painted for nothing. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets a length in percent of what holds it. */
export function place(node, property, percent) {
  node.style.setProperty(property, `${percent.toFixed(3)}%`);
  return node;
}

/** Says something to those who don't see the page change. */
export function announce(text) {
  document.getElementById("said").textContent = text;
}

let ids = 0;

/** An id that nothing else here has. */
export function freshId(word) {
  ids += 1;
  return `${word}-${ids}`;
}

/** A control under its label. */
export function labelled(label, control, hint = "") {
  control.id ||= freshId("field");
  const told = hint ? el("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (told) control.setAttribute("aria-describedby", told.id);
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control, told);
}
