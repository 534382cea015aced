"""What moved from one answer to another, and whether it may."""

from __future__ import annotations

from typing import Any

ESTIMATE = 0.02
"""Of its standard error."""
ERROR = 0.02
"""Of itself."""
LIKELIHOOD = 1e-3
HELD = 1e-6
"""Of an estimate that has no standard error, as a share of it."""
Answer = dict[str, Any]


def score(answer: Answer) -> float:
    """log L; where the weight is given, minus half of the cost."""
    value = answer["log_likelihood"]
    return float(-answer["cost"]["total"] / 2 if value is None else value)


def moved(before: Answer, now: Answer) -> tuple[list[str], bool]:
    """Sentences about what moved, and whether this passes: a higher likelihood of the same samples does."""
    changes = [f"{name} {was} -> {now['fit'][name]}" for name, was in before["fit"].items() if now["fit"][name] != was]
    if (before["log_likelihood"] is None) != (now["log_likelihood"] is None):
        changes.append(f"log L {before['log_likelihood']} -> {now['log_likelihood']}")
    if changes:
        return [f"another fit: {', '.join(changes)}"], False
    gain = score(now) - score(before)
    said = [] if before["status"] == now["status"] else [f"status {before['status']} -> {now['status']}"]
    if not abs(gain) <= LIKELIHOOD:
        what = "cost / 2" if before["log_likelihood"] is None else "log L"
        said.append(f"{what} {'better' if gain > 0 else 'worse'} by {abs(gain):.4g}")
    said += estimates(before["parameters"], now["parameters"])
    higher = gain > LIKELIHOOD and now["status"] in (before["status"], "converged")
    return said, higher or not said


def estimates(before: Answer, now: Answer) -> list[str]:
    """Sentences about parameters that moved."""
    if set(before) != set(now):
        return [f"other parameters: {', '.join(sorted(set(before) ^ set(now)))}"]
    return [said for name in before if (said := parameter(name, before[name], now[name]))]


def parameter(name: str, before: list[Any], now: list[Any]) -> str:
    """A sentence about one; empty if it has not moved."""
    (was, error, *held), (is_, later, *still) = before, now
    if held != still:
        return f"{name} {was} -> {is_}, {'no longer ' if held else ''}at its bound"
    if (error is None) != (later is None):
        return f"{name}: standard error {error} -> {later}"
    if error is None:  # where nothing determines it, it may be anything
        return f"{name} {was} -> {is_}" if held and abs(is_ - was) > HELD * abs(was) else ""
    by = abs(is_ - was) / error if error else float(is_ != was)
    if by > ESTIMATE:
        return f"{name} {was:.6g} -> {is_:.6g}, by {by:.2g} of its error"
    if abs(later - error) > ERROR * error:
        return f"{name}: standard error {error:.4g} -> {later:.4g}"
    return ""
