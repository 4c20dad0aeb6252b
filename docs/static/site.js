// Marks what is wider than its place, so that it fades at the side where it goes on; and lets pictures be enlarged.
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

// A picture with small print is a link to itself.
function linkPicture(picture) {
  if (picture.closest("a")) return;
  const link = document.createElement("a");
  link.href = picture.src;
  link.title = "show it as large as it is";
  picture.replaceWith(link);
  link.append(picture);
}

// One that is much higher than wide, such as a map with a line a method, is shown as wide as the page.
function markTall(picture) {
  picture.classList.toggle("tall", picture.naturalHeight > 1.8 * picture.naturalWidth);
}

// Cells with sentences; the style sheet gives them room.
function markWords(cell) {
  cell.classList.toggle("words", cell.textContent.trim().length > 36 && cell.textContent.trim().includes(" "));
}

// An estimate with its interval stays in one line, or rows grow tall for columns that are not in view.
function markNumbers(cell) {
  const text = cell.textContent.trim();
  cell.classList.toggle("numbers", text.length < 32 && /^[-<(\d][-\d\s.,:()%<e]*$/.test(text));
}

// Nor are 1e-6 and --tol broken after their hyphens.
function keepWhole(element) {
  for (const node of [...element.childNodes]) {
    if (node.nodeType !== Node.TEXT_NODE || !/\de-\d|--[a-z]/.test(node.data)) continue;
    const parts = node.data.split(/(\d[\d.]*e-\d+|--[a-z][\w-]*)/).map((part, index) => {
      if (index % 2 === 0) return part;
      const span = document.createElement("span");
      span.className = "whole";
      span.textContent = part;
      return span;
    });
    node.replaceWith(...parts);
  }
}

// Names of tests are for those who look them up; all others read over them.
function markTest(word) {
  word.parentElement.classList.toggle("test", word.textContent.includes("::test_"));
}

// An option or a name is not broken in two; the style sheet keeps it in one line.
function markShort(word) {
  word.classList.toggle("short", word.textContent.length < 24);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".bd-article :is(p, li, td, th) code .pre").forEach(markShort);
  document.querySelectorAll(".bd-article code .pre").forEach(markTest);
  document.querySelectorAll(".bd-article td").forEach(markWords);
  document.querySelectorAll(".bd-article td").forEach(markNumbers);
  document.querySelectorAll(".bd-article :is(p, li, td, th, em, strong, .line)").forEach(keepWhole);
  document.querySelectorAll(".bd-article img").forEach(linkPicture);
  document.querySelectorAll(".bd-article img").forEach((picture) => {
    if (picture.complete) markTall(picture);
    picture.addEventListener("load", () => markTall(picture));
  });
  markAll();
  document.querySelectorAll(WIDE).forEach((element) => element.addEventListener("scroll", () => mark(element)));
  window.addEventListener("resize", markAll);
});
