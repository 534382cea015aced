"""Findings on contacts whose measured heights and planes do not fit together."""

from __future__ import annotations

import numpy as np

from spookid.assembly.assembly import Assembly
from spookid.assembly.contact_start import noise_of, places_of
from spookid.kernels.arrays import Array
from spookid.results.findings import Finding
from spookid.tables.table import quantity
from spookid.transcription.transcription import Point

_OUT = 5.0
"""Standard deviations of the noise of heights from which on one is off."""
_OFTEN = 0.05
"""Share of the samples that are below a plane, where it is too high: impacts alone are fewer."""


def contact_findings(assembly: Assembly, point: Point) -> list[Finding]:
    """What measured poses say of the planes of contacts, at the estimates; none of models without contacts."""
    problem, found = assembly.problem, list[Finding]()
    contacts, values = problem.model.contacts, assembly.values(point)
    pairs = [(contact.point.body.name, contact.plane.body.name) for contact in contacts]
    for pair in dict.fromkeys(pairs):
        own = [i for i, other in enumerate(pairs) if other == pair]
        gaps, noise, reach = list[Array](), 0.0, 0.0
        for sampled in assembly.sampled:
            poses = sampled.guess.states[:, : problem.model.configuration.ambient]
            heights = places_of(problem, sampled, poses, values)[:, own, 0]
            gaps.append(heights.min(axis=1))
            noise = max(noise, max(noise_of(column) for column in heights.T))
            reach = max(reach, float(np.max(np.abs(np.diff(gaps[-1])), initial=0.0)))
        every, far = np.concatenate(gaps), _OUT * noise
        below = every[every < -far]
        if len(below) > _OFTEN * len(every):
            share, depth = len(below) / len(every), -float(np.median(below))
            below_by = f"{100 * share:.0f} % of the samples are below the plane, by {quantity(depth, 'm', 2)}"
            where, evidence = f"{below_by} in the median", {"share_below": share, "median_depth": depth}
        elif every.min() > far + reach:
            where = f"no sample comes nearer to the plane than {quantity(float(every.min()), 'm', 2)}"
            evidence = {"nearest": float(every.min())}
        else:
            continue
        subject = tuple(contacts[i].name for i in own)
        effect = f"Contacts and their plane do not meet: {', '.join(subject)}: {where}."
        asked = "Is its height right?", "It may be a parameter."
        found.append(Finding("contacts.plane", subject, evidence, effect, *asked))
    return found
