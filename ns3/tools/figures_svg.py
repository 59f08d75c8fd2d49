# SPDX-License-Identifier: GPL-2.0-only
"""Pictures with axes, as SVG."""

import math


def round_step(most):
    """Returns a round distance of lines, for four to eight of them."""
    rough = most / 5
    power = 10 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.999)


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


class Picture:
    """An SVG with axes. Values from 0 to most_x, and to most_y."""

    WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 70, 20, 72, 52

    def __init__(self, title, x_label, y_label, most_x, most_y, x_numbers=True):
        self.most_x, self.most_y = most_x, most_y * 1.08
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.WIDTH} {self.HEIGHT}" '
                      f'width="{self.WIDTH}" height="{self.HEIGHT}" font-family="sans-serif" font-size="13">',
                      f'<rect width="{self.WIDTH}" height="{self.HEIGHT}" fill="white"/>']
        self.text(self.WIDTH / 2, 22, title, "middle", size=16)
        self.text(self.WIDTH / 2, self.HEIGHT - 10, x_label, "middle")
        self.text(12, self.TOP - 12, y_label, "start")
        step = round_step(self.most_y)
        for i in range(math.floor(self.most_y / step) + 1):
            self.line([(0, i * step), (most_x, i * step)], "#ddd", 1)
            self.text(self.LEFT - 6, self.y(i * step) + 4, number(i * step), "end")
        if x_numbers:
            step = round_step(most_x)
            for i in range(math.floor(most_x / step) + 1):
                self.line([(i * step, 0), (i * step, self.most_y)], "#eee", 1)
                self.text(self.x(i * step), self.HEIGHT - self.BOTTOM + 18, number(i * step), "middle")

    def x(self, value):
        return self.LEFT + (self.WIDTH - self.LEFT - self.RIGHT) * value / self.most_x

    def y(self, value):
        return self.HEIGHT - self.BOTTOM - (self.HEIGHT - self.TOP - self.BOTTOM) * value / self.most_y

    def text(self, x, y, text, anchor, colour="#222", size=13):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{text}</text>')

    def line(self, points, colour, width=2):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def dots(self, points, colour):
        self.parts += [f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3.5" fill="{colour}"/>' for x, y in points]

    def bar(self, x, value, width, colour):
        left, top = self.x(x), self.y(value)
        self.parts.append(f'<rect x="{left:.1f}" y="{top:.1f}" width="{self.x(x + width) - left:.1f}" '
                          f'height="{self.y(0) - top:.1f}" fill="{colour}"/>')
        self.text((left + self.x(x + width)) / 2, top - 5, number(value), "middle", size=12)

    def legend(self, names):
        """Writes the names below the title, each behind a square of its colour."""
        at = self.WIDTH - self.RIGHT - sum(len(name) * 7.2 + 34 for name, _ in names)
        for name, colour in names:
            self.parts.append(f'<rect x="{at:.1f}" y="34" width="12" height="12" fill="{colour}"/>')
            self.text(at + 17, 45, name, "start")
            at += len(name) * 7.2 + 34

    def svg(self):
        """Returns the file's text."""
        return "\n".join(self.parts + ["</svg>"]) + "\n"


def draw_bars(title, y_label, legend, groups):
    """Draws bars in groups: (name of the group, [(colour, value)]). Returns the SVG."""
    most = max(value for _, bars in groups for _, value in bars)
    picture = Picture(title, "", y_label, len(groups), most, x_numbers=False)
    for i, (name, bars) in enumerate(groups):
        width = min(0.7 / len(bars), 0.3)
        start = i + 0.5 - width * len(bars) / 2
        for j, (colour, value) in enumerate(bars):
            picture.bar(start + j * width + width * 0.05, value, width * 0.9, colour)
        picture.text(picture.x(i + 0.5), picture.HEIGHT - picture.BOTTOM + 18, name, "middle")
    picture.legend(legend)
    return picture.svg()
