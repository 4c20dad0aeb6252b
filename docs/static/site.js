// Marks what is wider than its place, so that it fades at the side where it goes on.
const WIDE = ".bd-article pre, .bd-article table, .bd-article .formula, .bd-article .pst-scrollable-table-container";

function mark(element) {
  const left = element.scrollLeft > 4;
  const right = element.scrollLeft + element.clientWidth < element.scrollWidth - 4;
  element.classList.toggle("goes-on-left", left);
  element.classList.toggle("goes-on-right", right);
}

function markAll() {
  document.querySelectorAll(WIDE).forEach(mark);
}

document.addEventListener("DOMContentLoaded", () => {
  markAll();
  document.querySelectorAll(WIDE).forEach((element) => element.addEventListener("scroll", () => mark(element)));
  window.addEventListener("resize", markAll);
});
