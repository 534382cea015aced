"""One figure of how the data chose the state weight."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spookid.solvers.status import Status
from spookid.summary import number, quantity
from spookid.uncertainty import believable
from spookid.weight_choice import TOLERANCE, WeightChoice

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#707070"  # of Okabe and Ito: colour-blind people tell them apart


def figure(choice: WeightChoice, problem: str) -> Figure:
    """Prediction error, expected errors and share of the state cost against the weight."""
    result = Figure(figsize=(7.0, 7.0), layout="constrained")
    title = f"State weight of {problem}, chosen by {choice.criterion}"
    result.suptitle(title, fontsize=12, parse_math=False)
    upper, middle, lower = result.subplots(3, 1, sharex=True, height_ratios=(3, 2, 1.5))
    _errors(upper, choice)
    _expected_errors(middle, choice)
    lower.plot([t.weight for t in choice.curve], [t.state_share for t in choice.curve], ".-", color=_BLUE)
    lower.set_ylabel("share of state cost")
    lower.set_ylim(0.0, 1.0)
    lower.set_xlabel("state weight κ")
    for panel in (upper, middle, lower):
        panel.set_xscale("log")
        panel.axvline(choice.best.weight, color=_ORANGE, linewidth=1)
        panel.grid(alpha=0.3)
    for panel in (upper, middle):
        panel.legend(
            fontsize=8, ncols=3, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2
        )
    return result


def _expected_errors(panel: Axes, choice: WeightChoice) -> None:
    known = [trial for trial in choice.curve if math.isfinite(trial.expected)]
    panel.set_yscale("log")
    panel.plot([t.weight for t in known], [t.expected for t in known], "-", color=_BLUE, linewidth=1)
    for label, face, part in (
        ("standard errors agree with the jackknife's", _BLUE, [t for t in known if believable(t.agreement)]),
        ("standard errors disagree with the jackknife's", "white", [t for t in known if not believable(t.agreement)]),
    ):
        if part:
            here = [t.weight for t in part], [t.expected for t in part]
            panel.plot(*here, "o", color=_BLUE, markerfacecolor=face, label=label)
    panel.set_ylabel("expected relative error")


def _errors(panel: Axes, choice: WeightChoice) -> None:
    known = [trial for trial in choice.curve if math.isfinite(trial.error) and trial.error > 0]
    panel.set_yscale("log")
    panel.plot([t.weight for t in known], [t.error for t in known], "-", color=_BLUE, linewidth=1)
    considered = [trial for trial in known if trial in choice.considered]
    for label, style, colour, part in (
        ("fit converged", "o", _BLUE, [t for t in considered if t.status is Status.CONVERGED]),
        ("fit not converged", "x", _BLUE, [t for t in considered if t.status is not Status.CONVERGED]),
        ("left out", ".", _GREY, [t for t in known if t not in considered]),
    ):
        if part:
            panel.plot([t.weight for t in part], [t.error for t in part], style, color=colour, label=label)
    panel.plot([t.weight for t in known], [t.replay for t in known], ":", color=_GREY, label="whole recordings")
    best = choice.best
    if math.isfinite(best.error):
        panel.plot(best.weight, best.error, "o", color=_ORANGE, markersize=9, label=f"chosen, {number(best.weight)}")
        least = min(trial.error for trial in choice.replayed)
        label = f"within {100 * (TOLERANCE - 1):.0f} % of the least"
        panel.axhspan(least, TOLERANCE * least, color=_GREY, alpha=0.3, linewidth=0, label=label)
    panel.set_ylabel(f"error over windows of {quantity(choice.window, 's')} [σ]")
