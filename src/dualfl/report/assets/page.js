// The pictures of the page and what its switches do. Tables are HTML already; this file only shows and hides them.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  let printing = false;

  // Plotly reads a little HTML in its texts; names from data are to be shown as they are.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const brief = (value) => {
    if (value === null || value === undefined) return "–";
    if (Number.isInteger(value)) return value.toLocaleString("en");
    const [digits, power] = value.toExponential(2).split("e");
    return Math.abs(power) < 4 ? String(Number(value.toPrecision(4))) : `${digits}e${power}`;
  };

  // -- colours ---------------------------------------------------------------------------------------------

  const dark = () => !printing && (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const ink = (name) => printing
    ? { "--ink": "#1c2024", "--soft": "#5b636b", "--line": "#dfe2e5", "--panel": "#ffffff", "--heat": "#08519c" }[name]
    : getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (curve) => curve.colour[dark() ? 1 : 0];

  const axis = (more) => ({
    gridcolor: ink("--line"), linecolor: ink("--soft"), tickcolor: ink("--soft"), zeroline: false, automargin: true,
    fixedrange: touch, ...more,
  });
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: ink("--ink") },
    margin: { l: 66, r: 14, t: touch ? 12 : 34, b: 52 },
    hoverlabel: { align: "left", bgcolor: ink("--panel"), bordercolor: ink("--soft"), font: { color: ink("--ink") } },
    dragmode: touch ? false : "zoom",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: ink("--soft"), activecolor: ink("--ink") },
    ...more,
  });
  const config = {
    responsive: true, displaylogo: false, displayModeBar: !touch, showTips: false,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  const still = { ...config, displayModeBar: false };
  // Older versions of plotly.js give the buttons of a picture a tip, but no name.
  const nameButtons = (box) => box.querySelectorAll(".modebar-btn").forEach(
    (button) => button.setAttribute("aria-label", button.dataset.title || ""));
  // A logarithmic axis with at most ten powers of ten named on it.
  const powers = (values) => {
    const some = values.filter((value) => value > 0);
    const decades = some.length ? Math.log10(Math.max(...some) / Math.min(...some)) : 0;
    return { type: "log", exponentformat: "power", ...(decades > 1.5 ? { dtick: Math.ceil(decades / 10) } : {}) };
  };

  // -- convergence -----------------------------------------------------------------------------------------

  const chart = document.getElementById("chart");
  const proof = document.getElementById("certificate-chart");
  const measures = { error: "relative energy error", bound: "proven bound of it", energy: "energy E" };
  const chosen = (name) => (one(`input[name="${name}"]:checked`) || {}).value;
  const shown = () => all("input.curve").filter((box) => box.checked).map((box) => Number(box.value));
  const logX = document.getElementById("log-x");
  let logTouched = false;

  const hover = (curve) => curve.x.round.map((_, n) => plain(curve.label)
    + `<br>error ${brief(curve.y.error[n])}, proven ${brief(curve.y.bound[n])}`
    + `<br>round ${brief(curve.x.round[n])}, ${brief(curve.x.exchanges[n])} exchanges`
    + `<br>${brief(curve.x.floats[n])} floats, ${brief(curve.x.local_gradients[n])} local gradients`
    + `<br>${brief(curve.x.seconds[n])} s`);

  const trace = (box, number, measure, thin) => {
    const curve = data.curves[number];
    return {
      type: "scatter", mode: "lines+markers", name: plain(curve.label), meta: number,
      x: curve.x[chosen("x")], y: curve.y[measure], connectgaps: false,
      line: { color: colour(curve), dash: curve.dash, width: thin ? 1.2 : 2 },
      marker: {
        color: thin ? ink("--panel") : colour(curve), symbol: curve.symbol, size: 7, maxdisplayed: box.clientWidth < 500 ? 6 : 10,
        line: { color: colour(curve), width: thin ? 1.3 : 0 },
      },
      text: hover(curve), hovertemplate: "%{text}<extra></extra>",
    };
  };

  const xAxis = (traces) => axis({
    title: { text: data.words[chosen("x")], standoff: 10 },
    ...(logX.checked ? powers(traces.flatMap((each) => each.x)) : { rangemode: "tozero" }),
  });

  const drawConvergence = () => {
    const measure = chosen("y");
    const traces = shown().map((number) => trace(chart, number, measure));
    const heights = traces.flatMap((each) => each.y).filter((value) => value !== null);
    const scale = heights.every((value) => value > 0) ? powers(heights) : {};
    const yAxis = axis({ title: { text: measures[measure], standoff: 6 }, ...scale });
    Plotly.react(chart, traces, layout({ xaxis: xAxis(traces), yaxis: yAxis }), config).then(nameButtons);
    chart.setAttribute("aria-label", `${measures[measure]} against ${data.words[chosen("x")]}: `
      + (traces.length ? shown().map((number) => data.curves[number].label).join(", ") : "no curve is chosen"));
  };

  const drawCertificate = () => {
    if (!proof) return;
    const having = shown().filter((number) => data.curves[number].y.bound.some((value) => value !== null));
    const traces = having.flatMap((number) => [trace(proof, number, "error"), trace(proof, number, "bound", true)]);
    const yAxis = axis({
      title: { text: "error and proven bound", standoff: 6 }, ...powers(traces.flatMap((each) => each.y)),
    });
    Plotly.react(proof, traces, layout({ xaxis: xAxis(traces), yaxis: yAxis }), config).then(nameButtons);
  };

  // Where curves end at very different costs, equal steps show only the most expensive one.
  const suggestLog = () => {
    if (logTouched) return;
    const ends = shown().map((number) => data.curves[number].x[chosen("x")].at(-1)).filter((end) => end > 0);
    logX.checked = ends.length > 1 && Math.max(...ends) > 10 * Math.min(...ends);
  };

  const showTables = () => all("table[data-count]").forEach((table) => {
    table.hidden = table.dataset.count !== chosen("x");
  });

  const swatches = () => all("input.curve").forEach((box) => {
    const curve = data.curves[box.value];
    const dashes = { solid: "", dash: "7 4", dashdot: "7 3 2 3", longdashdot: "10 3 2 3", dot: "2 3" };
    const shapes = {
      circle: "M22 9m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", square: "M18.5 5.5h7v7h-7z", "triangle-up": "M22 4l4.6 8h-9.2z",
      diamond: "M22 4l5 5-5 5-5-5z", "triangle-down": "M22 14l4.6-8h-9.2z",
      cross: "M20.5 4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z", x: "M18 7l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",
    };
    box.nextElementSibling.innerHTML = `<svg viewBox="0 0 44 18" aria-hidden="true"><path d="M0 9h44" stroke-width="2.4"
      stroke="${colour(curve)}" stroke-dasharray="${dashes[curve.dash]}"/><path d="${shapes[curve.symbol]}"
      fill="${colour(curve)}"/></svg>`;
  });

  // -- reading curves with the keyboard ----------------------------------------------------------------------

  const reading = document.getElementById("reading");
  const place = { curve: 0, point: 0 };
  const read = () => {
    const visible = shown();
    if (!visible.length) return;
    place.curve = (place.curve + visible.length) % visible.length;
    const curve = data.curves[visible[place.curve]];
    place.point = Math.min(Math.max(place.point, 0), curve.x.round.length - 1);
    Plotly.Fx.hover(chart, [{ curveNumber: place.curve, pointNumber: place.point }]);
    const x = curve.x[chosen("x")][place.point], y = curve.y[chosen("y")][place.point];
    reading.textContent = `${curve.label}: ${brief(x)} ${data.words[chosen("x")]}, ${measures[chosen("y")]} ${brief(y)}`;
  };
  const move = (event) => {
    const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      Home: [0, -Infinity], End: [0, Infinity] };
    if (!(event.key in steps) || event.target !== chart) return;  // its own buttons have other uses for keys
    event.preventDefault();
    place.curve += steps[event.key][0];
    place.point += steps[event.key][1];
    read();
  };

  // -- partition and coefficients ----------------------------------------------------------------------------

  const drawPartition = (box) => {
    const { clients, labels, counts } = data.partitions[box.dataset.partition];
    const few = clients.length <= 24 && labels.length <= (box.clientWidth < 500 ? 10 : 16);
    box.style.height = `${Math.min(640, 110 + 28 * Math.max(2, clients.length))}px`;
    const names = (list) => ({ tickmode: list.length <= 40 ? "array" : "auto", tickvals: list.map((_, n) => n),
      ticktext: list.map(plain), type: "linear", showgrid: false });
    const most = Math.max(1, ...counts.flat());
    Plotly.react(box, [{
      type: "heatmap", z: counts, xgap: few ? 2 : 0, ygap: few ? 2 : 0, zmin: 0, zmax: most,
      colorscale: [[0, ink("--panel")], [1, ink("--heat")]], colorbar: { title: { text: "rows" }, thickness: 12, outlinewidth: 0 },
      text: counts.map((row, j) => row.map((count, k) => `${plain(clients[j])}, ${plain(labels[k])}: ${brief(count)} rows`)),
      hovertemplate: "%{text}<extra></extra>", texttemplate: few ? "%{z}" : "",
      ...(dark() ? { textfont: { color: ink("--ink") } } : {}),
    }], layout({
      xaxis: axis({ ...names(labels), title: { text: "label", standoff: 8 } }),
      yaxis: axis({ ...names(clients), title: { text: "client", standoff: 8 }, autorange: "reversed" }),
      margin: { l: 60, r: 10, t: 8, b: 50 },
    }), still);
  };

  // A name that would leave no room for the picture loses its middle; pointing at it shows the whole.
  const cut = (name, box) => {
    const most = box.clientWidth < 500 ? 18 : 40;
    return name.length <= most ? name : `${name.slice(0, most / 2 - 1)}…${name.slice(1 - most / 2)}`;
  };

  const drawCoefficients = (box) => {
    const number = box.dataset.coefficients;
    const choice = one(`select[data-fit="${number}"]`);
    const scaled = chosen(`scale-${number}`) === "deviation";
    const rows = data.fits[number][choice ? Number(choice.value) : 0].rows.slice(0, 40).reverse()
      .map(([name, ...values]) => [name, ...values.slice(0, 3).map((v) => (v === null || !scaled ? v : v * values[3]))]);
    box.style.height = `${90 + 22 * rows.length}px`;
    const beyond = (place) => rows.map((row) => (row[place] === null ? 0 : Math.abs(row[place] - row[1])));
    const dot = data.curves.length ? colour(data.curves[0]) : ink("--accent");
    const unit = chosen(`scale-${number}`) ? (scaled ? " per standard deviation" : " per unit") : "";
    Plotly.react(box, [{
      type: "scatter", mode: "markers", x: rows.map((row) => row[1]), y: rows.map((_, n) => n),
      marker: { size: 8, color: dot },
      error_x: { type: "data", symmetric: false, array: beyond(3), arrayminus: beyond(2), color: dot, thickness: 1.5, width: 4 },
      text: rows.map((row) => `${plain(row[0])}: ${brief(row[1])}${unit}`
        + (row[2] === null ? "" : `<br>from ${brief(row[2])} to ${brief(row[3])}`)),
      hovertemplate: "%{text}<extra></extra>",
    }], layout({
      xaxis: axis({ title: { text: unit.trim() || "coefficient", standoff: 8 }, zeroline: true, zerolinecolor: ink("--soft") }),
      yaxis: axis({ tickmode: "array", tickvals: rows.map((_, n) => n), ticktext: rows.map((row) => plain(cut(row[0], box))),
        range: [-0.7, rows.length - 0.3] }),
      margin: { l: 90, r: 14, t: 8, b: 50 },
    }), still);
  };

  // -- how good a model is -----------------------------------------------------------------------------------

  // One line a class, as many colours as the page has for curves; the broken line is chance, or a perfect calibration.
  const drawRates = (box, number, [x, y], [across, up], mode) => {
    const curves = data.scores[number].filter((each) => each[x].length);
    const even = { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], hoverinfo: "skip", showlegend: false,
      line: { color: ink("--soft"), dash: "dot", width: 1.2 } };
    const traces = curves.map((each, n) => ({
      type: "scatter", mode, name: plain(each.class), x: each[x], y: each[y],
      line: { color: data.colours[n % data.colours.length][dark() ? 1 : 0], width: 2 }, marker: { size: 7 },
      text: each[x].map((value, k) => `${plain(each.class)}: ${across} ${brief(value)}, ${up} ${brief(each[y][k])}`
        + (x === "predicted" ? `<br>${brief(each.rows[k])} rows` : "")),
      hovertemplate: "%{text}<extra></extra>",
    }));
    const rates = (text) => axis({ title: { text, standoff: 8 }, range: [-0.02, 1.02], fixedrange: true });
    Plotly.react(box, [even, ...traces], layout({
      xaxis: rates(across), yaxis: rates(up), margin: { l: 60, r: 14, t: 8, b: 50 }, showlegend: traces.length > 1,
      legend: { x: 0.98, y: 0.04, xanchor: "right", yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
    }), still);
  };
  const drawRoc = (box) => drawRates(box, box.dataset.roc, ["false positives", "true positives"],
    ["false positive rate", "true positive rate"], "lines");
  const drawCalibration = (box) => drawRates(box, box.dataset.calibration, ["predicted", "observed"],
    ["predicted probability", "observed frequency"], "lines+markers");

  const drawPath = (box) => {
    const { alpha, loss, error, chosen: best } = data.paths[box.dataset.path];
    const tint = data.colours[0][dark() ? 1 : 0];
    const at = best === null ? [] : [best];
    Plotly.react(box, [{
      type: "scatter", mode: "lines+markers", x: alpha, y: loss, line: { color: tint, width: 2 }, marker: { size: 7 },
      error_y: { type: "data", array: error.map((value) => value ?? 0), color: tint, thickness: 1.2, width: 3 },
      text: alpha.map((value, n) => `alpha = ${brief(value)}${n === best ? ", chosen" : ""}<br>held-out loss ${brief(loss[n])}`),
      hovertemplate: "%{text}<extra></extra>",
    }, {
      type: "scatter", mode: "markers", x: at.map((n) => alpha[n]), y: at.map((n) => loss[n]), hoverinfo: "skip",
      marker: { size: 15, symbol: "circle-open", color: ink("--ink"), line: { width: 2 } },
    }], layout({
      xaxis: axis({ title: { text: "penalty alpha", standoff: 8 }, ...powers(alpha) }),
      yaxis: axis({ title: { text: "held-out loss", standoff: 8 } }), margin: { l: 66, r: 14, t: 8, b: 50 },
    }), still);
  };

  // -- all of it -----------------------------------------------------------------------------------------------

  const drawCurves = () => {
    if (!chart) return;
    drawConvergence();
    drawCertificate();
  };
  const draw = () => {
    swatches();
    drawCurves();
    all("[data-partition]").forEach(drawPartition);
    all("[data-coefficients]").forEach(drawCoefficients);
    all("[data-roc]").forEach(drawRoc);
    all("[data-calibration]").forEach(drawCalibration);
    all("[data-path]").forEach(drawPath);
  };

  // A table that is wider than its box says so; see .scroll.wide.
  const tellWide = () => all(".scroll").forEach((box) => {
    box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
  });

  const theme = document.getElementById("theme");
  const tellTheme = () => {
    theme.setAttribute("aria-pressed", String(dark()));
    theme.textContent = dark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Change to ${dark() ? "light" : "dark"} colours`);
  };
  const keep = (value) => { try { localStorage.setItem("dualfl-theme", value); } catch { /* not everywhere allowed */ } };
  const kept = () => { try { return localStorage.getItem("dualfl-theme"); } catch { return null; } };

  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    keep(root.dataset.theme);
    tellTheme();
    draw();
  });
  system.addEventListener("change", () => { tellTheme(); draw(); });

  if (chart) {
    all('input[name="x"]').forEach((input) => input.addEventListener("change", () => {
      suggestLog();
      showTables();
      drawCurves();
    }));
    all('input[name="y"]').forEach((input) => input.addEventListener("change", drawCurves));
    logX.addEventListener("change", () => { logTouched = true; drawCurves(); });
    all("input.curve").forEach((box) => box.addEventListener("change", drawCurves));
    all("button[data-all]").forEach((button) => button.addEventListener("click", () => {
      button.closest("fieldset").querySelectorAll("input.curve").forEach((box) => {
        box.checked = Boolean(button.dataset.all);
      });
      drawCurves();
    }));
    chart.addEventListener("keydown", move);
    chart.addEventListener("blur", () => { reading.textContent = ""; Plotly.Fx.unhover(chart); });
    suggestLog();
    showTables();
  }
  all("select[data-fit]").forEach((choice) => choice.addEventListener("change", () => {
    drawCoefficients(one(`[data-coefficients="${choice.dataset.fit}"]`));
  }));
  all('input[name^="scale-"]').forEach((input) => input.addEventListener("change", () => {
    drawCoefficients(one(`[data-coefficients="${input.name.slice("scale-".length)}"]`));
  }));
  // What is folded has no size until it is opened.
  all("details").forEach((box) => box.addEventListener("toggle", () => {
    if (box.open && box.querySelector(".chart")) draw();
    tellWide();
  }));
  addEventListener("resize", tellWide);
  all(".copy").forEach((button) => button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });

  tellTheme();
  draw();
  tellWide();
  root.dataset.ready = "true";
})();
