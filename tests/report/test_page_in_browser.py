"""The page in a real browser, opened from disk: it is quiet, it fetches nothing, and its switches change the picture.

Where there is no Chromium these tests are skipped, loudly; in CI that is a failure.
"""

import json
import os

import browser as chromium
import pytest
from contrast import contrast, luminance
from folders import EVIL, write_everything, write_fit

from dualfl.report.page import write_page
from dualfl.report.results import COUNTS

TAB, ENTER, SPACE = ("Tab", 9), ("Enter", 13, "\r"), (" ", 32, " ")
RIGHT, DOWN, END = ("ArrowRight", 39), ("ArrowDown", 40), ("End", 35)

# What is drawn, not what was asked for: the traces that Plotly holds, and the paths in its SVG.
PICTURE = """(() => {
  const chart = document.getElementById("chart");
  return {
    names: chart.data.map(each => each.name), x: chart.data.map(each => each.x), y: chart.data.map(each => each.y),
    paths: [...chart.querySelectorAll(".scatterlayer .trace path.js-line")].map(path => path.getAttribute("d")),
    title: chart.layout.xaxis.title.text, axes: [chart.layout.xaxis.type, chart.layout.yaxis.type],
    tables: [...document.querySelectorAll("table[data-count]")]
      .filter(table => table.checkVisibility()).map(table => table.dataset.count),
  };
})()"""


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    if chromium.find() is None:
        words = (
            "there is no Chromium, so that nobody has looked at the page in a browser (Debian: apt install chromium)"
        )
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    window = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield window
    window.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_page([write_everything(tmp_path_factory.mktemp("results"))])


@pytest.fixture(scope="module")
def states():
    """How the page was when it was loaded."""
    return {}


@pytest.fixture
def opened(window, file, states):
    """The page as it is at first; in the end nothing was fetched and nothing was complained about."""
    here = window.value("location.href") == file.as_uri()
    if not here or window.value("innerWidth") != 1200 or window.value(PICTURE) != states.get("first"):
        window.open(file)  # five megabytes of script take their time, so only if need be
        states["first"] = window.value(PICTURE)
    yield window
    assert window.complaints() == []
    assert window.requests() == []
    assert window.value("typeof hacked") == "undefined"


def test_it_opens_quietly_from_disk_and_draws(opened):
    picture = opened.value(PICTURE)
    assert len(picture["paths"]) == len(picture["y"]) == 3
    assert picture["y"][0][:3] == [2, 1, 0.5]
    assert picture["axes"] == ["linear", "log"]
    assert picture["tables"] == ["round"]
    for box in ("#certificate-chart", "[data-partition]", "[data-coefficients]"):
        assert opened.value(f"document.querySelector('{box} .main-svg') !== null")
    assert opened.value("document.title") == "Model results0"


def test_complaints_and_requests_would_be_noticed(window, file, tmp_path):
    """The checks of all other tests, on a page that deserves them."""
    bad = tmp_path / "bad.html"
    body = "<img src='https://example.invalid/x.png'><script>console.error('oh'); undefinedName</script>"
    bad.write_text(f"<!doctype html><html data-ready='true'>{body}")
    window.open(bad)
    window.until("document.readyState === 'complete'")
    assert window.requests() == ["https://example.invalid/x.png"]
    assert any("oh" in each for each in window.complaints())
    assert any("undefinedName" in each for each in window.complaints())


def test_the_pages_own_policy_stops_what_would_be_fetched(window, file):
    window.open(file)
    window.value(
        "(() => { const i = new Image(); i.src = 'https://example.invalid/x.png'; document.body.append(i); })()"
    )
    window.value("new Promise(done => setTimeout(done, 100))")
    assert any("Content Security Policy" in each for each in window.complaints())
    window.send("Page.navigate", url="about:blank")


def test_the_x_axis_switch_changes_picture_and_table(opened):
    before, shots = opened.value(PICTURE), [opened.screenshot("#chart")]
    assert before["x"][0][-1] == 20
    for count, end in {"exchanges": 40, "floats": 800, "seconds": 2}.items():
        opened.click(f'input[name="x"][value="{count}"]')
        after = opened.value(PICTURE)
        assert after["x"][0][-1] == end
        assert count in after["title"]
        assert after["tables"] == [count]
        assert after["y"] == before["y"]
        shots.append(opened.screenshot("#chart"))
    assert len(set(shots)) == 4
    opened.click('input[name="x"][value="round"]')
    assert opened.value(PICTURE) == before


def test_costs_far_apart_are_drawn_on_a_log_axis(opened):
    opened.click('input[name="x"][value="local_gradients"]')
    assert opened.value(PICTURE)["axes"] == ["log", "log"]
    opened.click("#log-x")
    assert opened.value(PICTURE)["axes"] == ["linear", "log"]


def test_the_y_switch_shows_bound_and_energy(opened):
    before = opened.value(PICTURE)
    opened.click('input[name="y"][value="bound"]')
    bound = opened.value(PICTURE)
    assert bound["y"][0][1] == pytest.approx(10 / 2)  # certificate 10, the best energy so far is 2
    assert bound["y"][1] == [None] * 21
    opened.click('input[name="y"][value="energy"]')
    energy = opened.value(PICTURE)
    assert energy["y"][0][:2] == [3, 2]
    assert before["paths"] != bound["paths"] != energy["paths"]
    opened.click('input[name="y"][value="error"]')
    assert opened.value(PICTURE) == before


def test_a_toggle_takes_a_curve_away_and_brings_it_back(opened):
    before, shot = opened.value(PICTURE), opened.screenshot("#chart")
    opened.click('input.curve[value="0"]')
    without = opened.value(PICTURE)
    assert without["names"] == before["names"][1:] and len(without["paths"]) == 2
    assert opened.screenshot("#chart") != shot
    opened.click('input.curve[value="0"]')
    assert opened.value(PICTURE)["y"] == before["y"]
    opened.click('button[data-all=""]')
    assert opened.value(PICTURE)["names"] == []
    opened.click('button[data-all="true"]')
    assert opened.value(PICTURE) == before


def test_names_are_shown_as_they_are(opened):
    shown = opened.value("[...document.querySelectorAll('label:has(input.curve)')].map(each => each.innerText.trim())")
    assert shown == ["dualfl", EVIL, "lbfgs"]
    opened.value("Plotly.Fx.hover(document.getElementById('chart'), [{curveNumber: 1, pointNumber: 3}])")
    assert EVIL in opened.value("document.querySelector('#chart .hoverlayer').textContent")
    ticks = opened.value("[...document.querySelectorAll('[data-partition] .ytick text')].map(each => each.textContent)")
    assert EVIL in ticks
    assert opened.value("document.querySelectorAll('img, iframe, object').length") == 0


def test_pointing_at_a_curve_reads_it(opened):
    opened.value("document.getElementById('chart').scrollIntoView({block: 'center', behavior: 'instant'})")
    x, y = opened.value("""(() => {
        const chart = document.getElementById("chart"), box = chart.querySelector(".nsewdrag").getBoundingClientRect();
        const {xaxis, yaxis} = chart._fullLayout;
        return [box.x + xaxis.c2p(10), box.y + yaxis.c2p(chart.data[0].y[10])];
    })()""")
    opened.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    opened.until("document.querySelector('#chart .hoverlayer').textContent.includes('round 10, 20 exchanges')")
    assert "400 floats" in opened.value("document.querySelector('#chart .hoverlayer').textContent")


def test_everything_works_by_keyboard(opened, file):
    opened.open(file)  # nothing has the focus
    focus = "document.activeElement.{}".format
    opened.key(*TAB)
    assert opened.value(focus("className")) == "skip"
    assert opened.value("document.activeElement.getBoundingClientRect().x >= 0")  # seen once it is reached
    opened.key(*ENTER)
    opened.until("document.activeElement.id === 'main'")
    opened.key(*TAB)
    assert opened.value(focus("name")) == "x"
    opened.key(*RIGHT)  # a radio button moves by arrows
    assert opened.value(focus("value")) == "exchanges"
    assert opened.value(PICTURE)["x"][0][-1] == 40
    outline = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
    assert opened.value(outline) == "solid"
    opened.key(*TAB)
    assert opened.value(focus("name")) == "y"
    opened.key(*TAB)
    assert opened.value(focus("id")) == "log-x"
    opened.key(*TAB)
    assert opened.value(focus("id")) == "chart"
    opened.key(*RIGHT)
    opened.key(*RIGHT)
    reading = "document.getElementById('reading').textContent"
    assert opened.value(reading) == "dualfl: 4 exchanges, relative energy error 0.5"
    opened.key(*DOWN)
    assert opened.value(reading).startswith(EVIL)
    opened.key(*END)
    assert "40 exchanges" in opened.value(reading)
    while opened.value(focus("className")) != "curve":  # the picture has buttons of its own
        opened.key(*TAB)
        assert opened.value(focus("tagName")) in ("BUTTON", "INPUT")
    assert opened.value(focus("value")) == "0"
    opened.key(*SPACE)
    assert len(opened.value(PICTURE)["names"]) == 2
    assert opened.value(reading) == ""


def test_every_control_has_a_name(opened):
    nodes = opened.send("Accessibility.getFullAXTree")["nodes"]
    controls = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if node.get("role", {}).get("value") in ("button", "radio", "checkbox", "combobox", "link", "application")
    ]
    assert len(controls) > 15
    assert [role for role, name in controls if not name.strip()] == []


COLOURS = """(() => {
  const of = (selector, what) => getComputedStyle(document.querySelector(selector))[what];
  const lines = [...document.querySelectorAll("#chart .js-line")].map(path => path.style.stroke);
  return {ground: of("section", "backgroundColor"), ink: of("body", "color"), soft: of(".note", "color"),
    link: of("nav a", "color"), text: document.querySelector("#chart .xtitle").style.fill, lines};
})()"""


def readable(colours):
    texts = [colours[name] for name in ("ink", "soft", "link", "text")]
    return all(contrast(text, colours["ground"]) >= 4.5 for text in texts) and all(
        contrast(line, colours["ground"]) >= 3 for line in colours["lines"]
    )


def test_dark_by_the_system_and_by_the_button(window, file):
    window.open(file, dark=True)
    dark, shot = window.value(COLOURS), window.screenshot("#convergence")
    assert luminance(dark["ground"]) < 0.05 < luminance(dark["ink"])
    assert readable(dark)
    assert window.value("document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    window.click("#theme")
    light = window.value(COLOURS)
    assert luminance(light["ground"]) > 0.8 > luminance(light["ink"])
    assert readable(light)
    assert window.screenshot("#convergence") != shot
    window.open(file, dark=True)  # what was chosen is kept
    assert window.value(COLOURS) == light
    window.click("#theme")
    assert window.value(COLOURS) == dark
    window.value("localStorage.clear()")
    window.open(file, dark=False)
    assert window.value(COLOURS) == light
    window.look(dark=True)  # the system changes while the page is open
    window.until(f"JSON.stringify({COLOURS}.lines) === {json.dumps(json.dumps(dark['lines'], separators=(',', ':')))}")
    assert window.complaints() == []


def test_a_phone_need_not_scroll_sideways(window, file):
    window.open(file, width=390, height=844, phone=True)
    assert window.value("document.documentElement.scrollWidth") == 390
    small = "[...document.querySelectorAll('button, .switch span')].filter(each => each.checkVisibility())"
    assert window.value(f"{small}.every(each => each.getBoundingClientRect().height >= 30)")
    assert window.value("document.getElementById('chart').clientWidth") > 300
    assert window.value("document.getElementById('chart')._fullLayout.dragmode") is False  # a finger scrolls the page
    assert window.complaints() == []


def test_on_paper_there_are_all_tables_and_no_buttons(window, file):
    window.open(file, dark=True)
    window.look(dark=True, medium="print")
    window.value("dispatchEvent(new Event('beforeprint'))")
    paper = window.value(COLOURS)
    assert luminance(paper["ground"]) > 0.8 and readable(paper)
    shown = "[...document.querySelectorAll('{}')].filter(each => each.checkVisibility()).length".format
    assert window.value(shown("table[data-count]")) == len(COUNTS)
    assert window.value(shown("button, nav, .controls")) == 0
    assert len(window.send("Page.printToPDF")["data"]) > 10_000
    window.look(dark=True)
    window.value("dispatchEvent(new Event('afterprint'))")
    assert luminance(window.value(COLOURS)["ground"]) < 0.05


def test_coefficients_have_their_intervals_and_classes(opened):
    first = "document.querySelector('[data-coefficients]').data[0]"
    drawn = f"(({{x, error_x}}) => [x, error_x.arrayminus, error_x.array])({first})"
    assert opened.value(drawn) == [[-0.5, 1.5], [0, 0.5], [0, 0.5]]
    opened.value("document.querySelector('select[data-fit]').focus()")
    opened.key(*DOWN)
    opened.until(f"{first}.x[1] === -3")
    assert opened.value(drawn) == [[0.5, -3], [0, 0.5], [0, 0.5]]


def test_the_page_of_a_fit(window, tmp_path):
    window.open(write_page([write_fit(tmp_path / "fit")]))
    drawn = "document.querySelector('[data-{}]').data".format
    forest = f"(({{x, error_x}}) => [x, error_x.arrayminus])({drawn('coefficients')}[0])"
    assert window.value(forest) == [[-0.5, 5], [0.25, 2]]  # for a standard deviation, and no intercept
    window.click('input[name="scale-0"][value="unit"]')
    assert window.value(forest) == [[-2, 0.5], [1, 0.2]]
    assert window.value(f"{drawn('roc')}[1].y") == [0, 0.7, 1]
    assert window.value(f"{drawn('calibration')}[1].x") == [0.2, 0.6]
    assert window.value(f"{drawn('path')}[1].x") == [0.1]  # the choice
    assert not window.value("document.getElementById('chart').checkVisibility()")
    window.click("#convergence summary")
    window.until("document.querySelector('#chart .main-svg')?.getBoundingClientRect().width > 700")
    assert window.value("document.documentElement.scrollWidth") == 1200
    assert window.complaints() == [] and window.requests() == [] and window.value("typeof hacked") == "undefined"


def test_a_table_that_is_cut_on_a_phone_says_so(window, tmp_path):
    window.open(write_page([write_fit(tmp_path / "fit")]), width=390, height=844, phone=True)
    assert window.value("document.documentElement.scrollWidth") == 390
    cues = """[...document.querySelectorAll(".scroll")].filter(box => box.checkVisibility()).map(box => [
      box.scrollWidth > box.clientWidth + 1,
      getComputedStyle(box.querySelector("caption"), "::after").content !== "none"])"""
    found = window.value(cues)
    assert [True, True] in found and all(cut == told for cut, told in found)
