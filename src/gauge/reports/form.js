// asks the server for a prediction, then for its explanation; what comes back is shown as text, never read as HTML
(() => {
  const MOST_BYTES = 6e6, LONGEST_SIDE = 2048, NAMED = 5, SMALLEST = 0.005, DOUBTFUL = 0.5;
  const form = document.querySelector("form"), result = document.querySelector(".result");
  const fields = [...document.querySelectorAll(".field")], button = form.querySelector(".main");
  const status = form.querySelector("output"), beginning = [...result.children];
  const input = (field) => field.querySelector("input, select, textarea");
  const make = (tag, properties, ...inside) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...inside);
    return element;
  };
  const percent = (value) => (value < 0.001 ? "< 0.1 %" : value > 0.999 ? "> 99.9 %" : `${(100 * value).toFixed(1)} %`);
  const points = (value) => `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(1)}`;
  const images = new Map();
  let asked = 0;

  const say = (field, kind, text) => {
    field.querySelector(`.${kind}`).textContent = text;
    if (kind === "problem") text ? input(field).setAttribute("aria-invalid", "true") : input(field).removeAttribute("aria-invalid");
  };
  const numeric = (text) => (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : null);
  const value = (field) => {
    if (field.dataset.form === "image") return images.get(field) ?? null;
    const text = input(field).value.trim();
    if (!text) return null;
    return field.dataset.form === "number" ? (numeric(text) ?? text) : text;
  };
  const shown = (field) => {
    if (!field || field.dataset.form === "image") return "";
    const text = input(field).value.trim();
    return text.length > 60 ? `${text.slice(0, 60)}…` : text;
  };
  const named = (column) => fields.find((field) => field.dataset.column === column);

  // ---- the form
  const checkRange = (field) => {
    const { low, high, form: kind } = field.dataset, text = input(field).value.trim();
    const given = kind === "number" ? numeric(text) : text;
    const [least, most] = kind === "number" ? [Number(low), Number(high)] : [low, high];
    const unusual = low && text && given !== null && (given < least || given > most);
    say(field, "unusual", unusual ? `Unusual: in training almost all were between ${low} and ${high}.` : "");
  };
  const asText = (blob) => new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
  const smaller = async (file) => {
    const bitmap = await createImageBitmap(file), scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
    if (scale === 1 && file.size <= MOST_BYTES) return file;
    const canvas = make("canvas", { width: Math.round(scale * bitmap.width), height: Math.round(scale * bitmap.height) });
    canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.95));
  };
  const readImage = async (field) => {
    field.querySelector(".preview")?.remove();
    images.delete(field);
    const file = input(field).files[0];
    if (!file) return;
    try {
      const address = await asText(await smaller(file).catch(() => file)); // a format that only the server may read
      if (input(field).files[0] !== file) return;
      images.set(field, address.slice(address.indexOf(",") + 1));
      input(field).after(make("img", { className: "preview", src: address, alt: `The chosen image for ${field.dataset.column}` }));
    } catch {
      say(field, "problem", "This file cannot be read; choose another.");
    }
  };
  for (const field of fields) {
    input(field).addEventListener("input", () => {
      say(field, "problem", "");
      result.classList.toggle("stale", asked > 0);
      if (field.dataset.form === "number" || field.dataset.form === "date") checkRange(field);
    });
    if (field.dataset.form === "image") input(field).addEventListener("change", () => (field.reading = readImage(field)));
  }
  form.addEventListener("reset", () => {
    asked += 1;
    images.clear();
    for (const field of fields) {
      field.querySelector(".preview")?.remove();
      say(field, "problem", ""), say(field, "unusual", "");
    }
    result.classList.remove("stale");
    result.replaceChildren(...beginning);
    status.textContent = "";
    asked = 0;
  });

  // ---- the answer
  const bar = (name, text, share, className, below) => {
    const line = make("li", { className }, make("span", {}, name, ...(below ? [make("small", {}, below)] : [])), make("span", {}, text));
    line.style.setProperty("--w", `${(100 * share).toFixed(1)}%`);
    return line;
  };
  const part = (title, list, about = "") =>
    make("div", {}, make("h3", {}, title), list, ...(about ? [make("p", { className: "small" }, about)] : []));
  const noteLines = (answer) =>
    answer.notes.map((note) => make("li", {}, make("b", {}, `${note.column}: ${note.value}`), ` ${note.note}`));

  const showPrediction = (answer) => {
    const ranked = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]);
    const chosen = String(answer.prediction), own = answer.probabilities[chosen];
    const bars = ranked.slice(0, 8).map(([name, share]) => bar(name, percent(share), share, name === chosen ? "chosen" : ""));
    const more = ranked.length > 8 ? `${ranked.length - 8} more classes have less.` : "";
    const verdict = make("p", { className: "verdict" }, make("small", {}, "The model predicts"), `${chosen}, ${percent(own)}`);
    const empty = fields.every((field) => value(field) === null);
    const parts = [verdict, part("All classes", make("ul", { className: "bars" }, ...bars), more)];
    if (empty) parts.splice(1, 0, make("p", { className: "alarm" }, "No value was given: this is only how often each class occurs."));
    const notes = noteLines(answer);
    if (notes.length) parts.push(part("Does not fit", make("ul", { className: "warn", id: "notes" }, ...notes)));
    result.classList.remove("stale");
    result.replaceChildren(...parts, make("p", { className: "small", id: "wait" }, "Looking for what speaks for and against it …"));
  };

  const words = (units, column, sign) =>
    units
      .filter((unit) => unit.column === column && unit.kind === "text" && sign * (unit.used ?? 0) >= SMALLEST)
      .sort((a, b) => Math.abs(b.used) - Math.abs(a.used))
      .slice(0, 4)
      .map((unit) => `“${unit.value}”`)
      .join(", ");
  const effects = (answer, sign) => {
    const moved = Object.entries(answer.effects).filter(([, effect]) => sign * effect >= SMALLEST);
    const largest = Math.max(0.1, ...Object.values(answer.effects).map(Math.abs));
    return moved
      .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
      .slice(0, NAMED)
      .map(([column, effect]) => {
        const below = words(answer.units, column, sign) || shown(named(column));
        return bar(column, points(effect), Math.abs(effect) / largest, sign > 0 ? "for" : "against", below);
      });
  };
  const doubts = (answer) =>
    answer.units
      .filter((unit) => unit.state === "observed" && unit.trusted !== null && unit.trusted < DOUBTFUL)
      .sort((a, b) => a.trusted - b.trusted)
      .map((unit) => {
        const rest = unit.suggestion ? `; the rest suggests ${unit.suggestion}` : "";
        return make("li", {}, make("b", {}, `${unit.column}: ${unit.value}`), ` is right with ${percent(unit.trusted)}${rest}`);
      });
  const unusual = () =>
    fields
      .filter((field) => field.querySelector(".unusual").textContent)
      .map((field) => make("li", {}, make("b", {}, `${field.dataset.column}: ${shown(field)}`), ` is beyond ${field.dataset.low} to ${field.dataset.high}, where almost all training values are`));
  const helpful = (answer) =>
    Object.entries(answer.helpful)
      .filter(([column, each]) => each.gain >= SMALLEST && named(column))
      .slice(0, 3)
      .map(([column, each]) => {
        const about = make("em", {}, each.words);
        const go = make("button", { type: "button" }, make("span", {}, column), about);
        go.addEventListener("click", () => input(named(column)).focus());
        return make("li", {}, go);
      });

  const showExplanation = (answer) => {
    const lists = [["Speaks for it", 1], ["Speaks against it", -1]].map(([title, sign]) => {
      const lines = effects(answer, sign);
      const list = lines.length ? make("ul", { className: "bars" }, ...lines) : make("p", { className: "small" }, "Nothing of weight.");
      return part(title, list);
    });
    const about = "Percentage points by which the probability would fall, or rise, without the value.";
    const parts = [make("div", {}, make("div", { className: "two" }, ...lists), make("p", { className: "small" }, about))];
    const doubtful = [...doubts(answer), ...unusual(), ...noteLines(answer)];
    document.getElementById("notes")?.parentElement.remove();
    const judged = answer.units.some((unit) => unit.trusted !== null);
    const none = make("p", { className: "small" }, judged ? "Every given value fits the others." : "No value is unknown or unusual.");
    parts.push(part("Does not fit", doubtful.length ? make("ul", { className: "warn" }, ...doubtful) : none));
    const lines = helpful(answer);
    if (lines.length) {
      const mean = "What to expect of rows like this one once the missing value is known, by rows held out in training. Choose one to fill it in.";
      parts.push(part("Would help most", make("ul", { className: "help" }, ...lines), mean));
    } else if (fields.some((field) => value(field) === null)) {
      parts.push(part("Would help most", make("p", { className: "small" }, "No single missing value is known to make the answer better.")));
    }
    document.getElementById("wait")?.replaceWith(...parts);
  };

  // ---- the server
  const ask = async (path, row) => {
    const body = JSON.stringify({ rows: [row] });
    const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body });
    const content = await response.json().catch(() => ({ detail: `status ${response.status}` }));
    return { status: response.status, content };
  };
  const complain = (detail) => {
    const problems = Array.isArray(detail) ? detail : [{ where: "", problem: String(detail) }];
    const elsewhere = [];
    let first = null;
    for (const { where, problem } of problems) {
      const field = named(where.replace(/^rows\.0\./, "")) ?? fields.find((each) => where.startsWith(`rows.0.${each.dataset.column}.`));
      if (!field) elsewhere.push(`${where} ${problem}`.trim());
      else say(field, "problem", problem), (first ??= field);
    }
    result.classList.remove("stale");
    const text = first ? "Some values cannot be read; they are marked in the form." : elsewhere.join("; ");
    result.replaceChildren(make("h2", {}, "No prediction"), make("p", { className: "alarm" }, text));
    if (first) input(first).focus();
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const own = (asked += 1);
    button.disabled = true;
    status.textContent = "Asking the model …";
    try {
      await Promise.all(fields.map((field) => field.reading));
      const row = Object.fromEntries(fields.map((field) => [field.dataset.column, value(field)]).filter(([, each]) => each !== null));
      for (const field of fields) say(field, "problem", "");
      const prediction = await ask("predict", row);
      if (own !== asked) return;
      if (prediction.status !== 200) return complain(prediction.content.detail);
      showPrediction(prediction.content.predictions[0]);
      result.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      const explanation = await ask("explain", row);
      if (own !== asked) return;
      if (explanation.status === 200) showExplanation(explanation.content.explanations[0]);
      else document.getElementById("wait").textContent = `Without an explanation: ${explanation.content.detail}`;
    } catch {
      if (own === asked) complain("The server does not answer; try again.");
    } finally {
      button.disabled = false;
      status.textContent = "";
    }
  });
})();
