"""Another way to the maximum of the likelihood, where a fit has put noise in the place of the mechanics.

The likelihood has worse maxima far from the best one: inertias out of all proportion, whose motion disturbances make,
or a sensor whose errors count as motion. A search for the noise may end there from guesses that are off by a decade, as
each step makes room for more noise. At noise that is small and held, the same guesses lead to the motion; the search
goes on from there, and the larger likelihood stands.
"""

from __future__ import annotations

from spookid.estimation.fit import Fit
from spookid.estimation.fitting import Start
from spookid.estimation.overfitting import followed_findings
from spookid.estimation.unexplained import unexplained_findings
from spookid.estimation.work import Work
from spookid.solvers.status import Status


def with_explained_motion(work: Work, first: Fit) -> Fit:
    """The fit, or one that leaves less to noise if that is more likely."""
    if first.likelihood is None or first.outcome.status is not Status.CONVERGED or not _in_doubt(first):
        return first
    problem = first.assembly.problem
    lead = later = work.run(problem, Start(guessed=True), first)
    if lead.outcome.status is Status.CONVERGED:
        later = work.run(problem, Start(lead.result.changed(noise=())), lead)
    if later.outcome.status is Status.INTERRUPTED:
        return first.with_(status=Status.INTERRUPTED, detail="before another way to the maximum was tried")
    return later if later.rank > first.rank else first


def _in_doubt(fit: Fit) -> bool:
    """True if a sensor has lost its noise, or disturbances exceed all that acts."""
    assert fit.likelihood is not None
    return bool(
        followed_findings(fit.likelihood.noise, fit.motion) or unexplained_findings(fit.assembly, fit.point, fit.motion)
    )
