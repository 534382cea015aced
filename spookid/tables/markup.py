"""Text of tables and sentences as LaTeX."""

from __future__ import annotations

import re

_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_SPECIAL = {
    **{c: rf"\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "±": r"$\pm$",
    "−": r"$-$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "√": r"$\surd$",
    "°": r"$^{\circ}$",
    "κ": r"$\kappa$",
    "ζ": r"$\zeta$",
    "σ": r"$\sigma$",
    "μ": r"$\mu$",
    "λ": r"$\lambda$",
    "θ": r"$\theta$",
    "τ": r"$\tau$",
    "φ": r"$\varphi$",
    "ω": r"$\omega$",
    "Σ": r"$\Sigma$",
    "Δ": r"$\Delta$",
}
_TOKENS = re.compile(
    r"(?P<mantissa>(?<![\w.])\d+(?:\.\d*)?|\))e(?P<exponent>[+-]?\d+)(?!\w)"
    r"|(?P<minus>(?<![\w.)\]])-(?=\d))"
    r"|\^(?P<power>-?\d+)"
    r"|(?P<raised>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
    "|(?P<special>[" + re.escape("".join(_SPECIAL)) + "])"
)


def latex(text: str) -> str:
    """``text`` in LaTeX: special characters escaped, powers of ten and of units raised, signs and Greek letters as
    mathematics; for text mode, without packages."""
    return _TOKENS.sub(_token, text)


def _token(match: re.Match[str]) -> str:
    if match["exponent"]:
        return rf"{match['mantissa']}$\times10^{{{int(match['exponent'])}}}$"
    if match["minus"]:
        return "$-$"
    if match["power"] or match["raised"]:
        return f"$^{{{match['power'] or match['raised'].translate(_RAISED)}}}$"
    return _SPECIAL[match["special"]]
