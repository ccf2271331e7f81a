"""Curves as an SVG: one for each name, and a band where a paper's figures lie."""

from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 50, 70
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
TICKS = 5


def draw(title, x_name, unit, curves, band=None, note=""):
    """curves: by name, lists of (x, y). band: from, to, and whose it is; None: none."""
    points = [point for curve in curves.values() for point in curve]
    xs = [x for x, _ in points]
    ys = [y for _, y in points] + ([band[0], band[1]] if band else [0])
    low_x, high_x, low_y, high_y = min(xs), max(xs), min(0, *ys), max(ys)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def across(x):
        return LEFT + (right - LEFT) * (0.5 if high_x == low_x else (x - low_x) / (high_x - low_x))

    def up(y):
        return bottom - (bottom - TOP) * (0 if high_y == low_y else (y - low_y) / (high_y - low_y))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
             f'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', _text(LEFT, 24, title, 15)]
    if band:
        parts += [f'<rect class="band" x="{LEFT}" y="{up(band[1]):.1f}" width="{right - LEFT}" '
                  f'height="{up(band[0]) - up(band[1]):.1f}" fill="#eeeeee"/>', _text(LEFT, 42, f"grey: {band[2]}")]
    for i in range(TICKS + 1):
        y = low_y + (high_y - low_y) * i / TICKS
        parts += [f'<line x1="{LEFT}" x2="{right}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#dddddd"/>',
                  _text(LEFT - 6, up(y) + 4, f"{y:.3g}{' ' + unit if unit else ''}", anchor="end")]
    parts += [_text(across(x), bottom + 18, f"{x:g}", anchor="middle") for x in sorted(set(xs))]
    parts += [_text((LEFT + right) / 2, bottom + 36, x_name, anchor="middle"), _text(LEFT, HEIGHT - 12, note)]
    for i, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve)
        parts += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
                  *(f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>' for x, y in curve),
                  f'<rect x="{right + 16}" y="{TOP + 20 * i}" width="12" height="12" fill="{colour}"/>',
                  _text(right + 34, TOP + 20 * i + 11, name)]
    return "\n".join([*parts, "</svg>", ""])


def _text(x, y, words, size=12, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'
