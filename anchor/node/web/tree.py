"""The tree, from a chunk of a tensor to the final checkpoint, as a picture (SVG)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

LEVELS: Final = 5
"""Of the drawn tree, the root's included: a sketch, a real one has as many as it needs."""
STEP: Final = 44
"""Pixels between two levels."""
WIDTH: Final = 640


def draw_tree(labels: Sequence[str]) -> str:
    """A binary tree whose leftmost way is lit, each level of it named by a label, from the root down."""
    height = STEP * LEVELS
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="The tree from checkpoint to chunk">',
        *_draw_lines(),
        *_draw_nodes(),
        *_draw_labels(labels),
        "</svg>",
    ]
    return "".join(parts)


def _place(level: int, index: int) -> tuple[float, float]:
    return (WIDTH * 0.55) * (2 * index + 1) / (2 << level) + WIDTH * 0.44, STEP * (level + 0.5)


def _draw_lines() -> Iterator[str]:
    for level in range(1, LEVELS):
        for index in range(1 << level):
            (x, y), (up_x, up_y) = _place(level, index), _place(level - 1, index // 2)
            kind = "way" if index == 0 else "branch" if index == 1 else "rest"
            yield f'<line class="{kind}" x1="{x:.0f}" y1="{y:.0f}" x2="{up_x:.0f}" y2="{up_y:.0f}"/>'


def _draw_nodes() -> Iterator[str]:
    for level in range(LEVELS):
        for index in range(1 << level):
            x, y = _place(level, index)
            kind = "way" if index == 0 else "branch" if index == 1 else "rest"
            yield f'<circle class="{kind}" cx="{x:.0f}" cy="{y:.0f}" r="{6 if index < 2 else 3}"/>'


def _draw_labels(labels: Sequence[str]) -> Iterator[str]:
    for level, label in enumerate(labels[:LEVELS]):
        yield f'<text x="4" y="{STEP * (level + 0.5) + 4:.0f}">{escape(label)}</text>'
