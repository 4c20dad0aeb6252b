"""Draws house.svg: the layers of src/dualfl, as the contract in pyproject.toml has them.

    python docs/images/house.py

What each package is for is read from the list in CONTRIBUTING.md.
"""

import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAP = re.compile(r"^ {6}(\w+)(?:/|\.py) +(\S.*)$", re.MULTILINE)
# The name of each floor, its colour, and a room of its lowest layer.
FLOORS = [
    ("what people use", "#e8effa", "estimators"),
    ("all clients together", "#e9f5ec", "problem"),
    ("one client", "#fdf3e1", "kernels"),
    ("shared basics", "#efefef", "errors"),
]
LEFT, WIDTH, HEIGHT, GAP = 150, 850, 30, 6


def layers() -> list[list[str]]:
    """From the top of the house down."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rows = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[room.strip() for room in row.split("|")] for row in rows]


def purposes() -> dict[str, str]:
    """What each room is for, from the top of the map down."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("`", "")
    return dict(MAP.findall(text))


def draw() -> str:
    told, y, parts = purposes(), 14, []
    rows = layers()
    for title, colour, last in FLOORS:
        floor = [rows.pop(0)]
        while last not in floor[-1]:
            floor.append(rows.pop(0))
        top = y
        for row in floor:
            width = (WIDTH - GAP * (len(row) - 1)) / len(row)
            for i, room in enumerate(row):
                parts.append(box(LEFT + i * (width + GAP), y, width, room, told[room] if len(row) < 3 else "", colour))
            y += HEIGHT + GAP
        parts.append(f'<text class="floor" x="{LEFT - 14}" y="{(top + y - GAP) / 2 + 4:g}">{title}</text>')
        y += 2 * GAP
    size = f'width="{LEFT + WIDTH + 14}" height="{y}" viewBox="0 0 {LEFT + WIDTH + 14} {y}"'
    style = (
        "text{font-family:sans-serif;font-size:13px;fill:#222}"
        ".floor{text-anchor:end;font-style:italic}.for{font-size:11px;fill:#444}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="The layers of dualfl">\n'
        f'<style>{style}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def box(x: float, y: float, width: float, room: str, purpose: str, colour: str) -> str:
    words = f' <tspan class="for" dx="8">{escape(purpose)}</tspan>' if purpose else ""
    return (
        f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{HEIGHT}" rx="4" fill="{colour}" stroke="#888"/>'
        f'<text x="{x + 10:g}" y="{y + 20}">{room}{words}</text>'
    )


if __name__ == "__main__":
    (Path(__file__).parent / "house.svg").write_text(draw(), encoding="utf-8")
