// search, filter and sort the rows; the page is complete without it
(() => {
  const body = document.querySelector(".glance tbody"), parent = document.querySelector(".each");
  const lines = [...body.rows].map((line) => ({ line, article: document.getElementById(line.dataset.row) }));
  const make = (tag, properties, ...inside) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...inside);
    return element;
  };
  const search = make("input", { type: "search", placeholder: "Search rows", ariaLabel: "Search rows" });
  const kinds = { "": "All rows", wrong: "Wrong", doubtful: "With doubtful values", unsure: "Below 70 %" };
  const options = Object.entries(kinds)
    .filter(([kind]) => !kind || lines.some(({ line }) => kind in line.dataset))
    .map(([value, textContent]) => make("option", { value, textContent }));
  const filter = make("select", { ariaLabel: "Which rows" }, ...options);
  const count = make("output", {});
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const { line, article } of lines) {
      const text = line.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word)) && (!filter.value || filter.value in line.dataset);
      line.hidden = article.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${lines.length} rows`;
  };
  const value = (line, column) => line.cells[column].dataset.value ?? line.cells[column].textContent;
  const sort = (head, column) => {
    const rising = head.ariaSort === "descending";
    for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
    head.ariaSort = rising ? "ascending" : "descending";
    const compare = new Intl.Collator(undefined, { numeric: true }).compare;
    lines.sort((a, b) => (rising ? 1 : -1) * compare(value(a.line, column), value(b.line, column)));
    for (const { line, article } of lines) body.append(line), parent.append(article);
  };
  [...document.querySelectorAll(".glance thead th")].forEach((head, column) => {
    const button = make("button", { type: "button", textContent: head.textContent });
    button.addEventListener("click", () => sort(head, column));
    head.replaceChildren(button);
  });
  for (const tool of [search, filter]) tool.addEventListener("input", show);
  document.querySelector(".glance").parentElement.before(make("div", { className: "tools" }, search, filter, count));
  show();
})();
