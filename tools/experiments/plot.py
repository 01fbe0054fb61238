#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws the plots of an experiment's JSON into one picture.

usage: plot.py NAME.json [PICTURE.png]
"""
import io
import json
import pathlib
import sys


def draw(report: dict, picture: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from PIL import Image as image

    plots = report["plots"]
    if not plots:
        return
    figure, axes = plt.subplots(len(plots), 1, figsize=(8, 2.9 * len(plots)), squeeze=False)
    for ax, plot in zip(axes[:, 0], plots):
        colours = {}
        for s in plot["series"]:
            # Series that follow an unnamed one share its colour: a line with its dashed and dotted companions.
            colour = colours.get("last") if not s["label"] else None
            style = "--" if s["dashed"] else ("none" if s["points"] else "-")
            line, = ax.plot(s["x"], s["y"], linestyle=style, marker="o" if s["points"] or len(s["x"]) <= 12 else None,
                            markersize=3, linewidth=1, color=colour, label=s["label"] or None)
            colours["last"] = line.get_color()
        for x, text in plot["marks"]:
            ax.axvline(x, color="0.6", linewidth=0.7, linestyle=":")
            ax.annotate(text, (x, 1), xycoords=("data", "axes fraction"), xytext=(2, -9), textcoords="offset points",
                        fontsize=7, color="0.3")
        if plot["log_x"]:
            ax.set_xscale("log", base=2)
        if plot["log_y"]:
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=0)
        ax.set_title(plot["title"], fontsize=9)
        ax.set_xlabel(plot["x"], fontsize=8)
        ax.set_ylabel(plot["y"], fontsize=8)
        ax.tick_params(labelsize=7)
        ax.grid(True, linewidth=0.3)
        if any(s["label"] for s in plot["series"]):
            ax.legend(fontsize=6, loc="best")
    figure.tight_layout()
    # Sixty-four colours are enough for lines, and keep pictures small enough to publish.
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=80, format="png", metadata={"Software": None})
    image.open(buffer).convert("RGB").quantize(64).save(picture, optimize=True)


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if len(sys.argv) > 1 else 2
    source = pathlib.Path(sys.argv[1])
    picture = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else source.with_suffix(".png")
    try:
        draw(json.loads(source.read_text()), picture)
    except (OSError, ValueError, KeyError) as error:
        print(f"plot.py: cannot draw {source}: {error}", file=sys.stderr)
        return 1
    except ImportError:
        print("plot.py: no matplotlib for this Python: apt-get install python3-matplotlib; the figures are in "
              f"{source}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
