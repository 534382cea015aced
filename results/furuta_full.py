"""Table 4 of the paper on a measured Furuta pendulum: `python results/furuta_full.py` writes furuta_full.md.

The problem is `problems/furuta_full.py`; `SPOOKID_DATA` names the folder of its data. Takes less than a minute.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "problems"))

from furuta_full import L_ARM, M_ARM, SCENARIOS, full  # noqa: E402

from spookid.studies import crossvalidate  # noqa: E402

PAGE = """# Table 4 on a measured Furuta pendulum

The command `python results/furuta_full.py` writes this page. The problem `problems/furuta_full.py` models a Furuta
pendulum, the Quanser Qube. The three recordings are a swing-up and two chirps of the motor voltage, one in each
direction. They are fitted separately and together. Each model is then tested on the other two recordings, with its
{count} parameters fixed. In these tests, states, noise levels and the spring of the encoder cable are estimated again,
because chirps and swing-ups were recorded on different days with different positions of the cable.

```
{study}
```

The table shows how much −2 log L of a recording (column) increases with the parameters from another recording (row)
instead of its own:

{above}

- **Estimated parameters.** J_Axx and J_Ayy of the paper's table do not affect the motion, because the arm rotates about
  one axis. Therefore J_Axx and J_Ayy are given and not estimated. All other parameters are estimated from each
  recording. The estimate of Coulomb friction is at its bound of zero if viscous friction explains the motion as well.
- **J_Azz is the inertia about the axle.** If the arm's centre of mass were at half its length, the inertia about the
  axle would be at least {least:.3g} kg m². The data give at most {most:.3g} kg m², so that a fit with this centre of
  mass has J_Azz at its bound. The centre of mass is not published, and the data determine only the inertia about the
  axle.
- **Agreement.** The smallest and the largest estimate differ by {apart[J_Azz]:.1f} % for J_Azz, {apart[K]:.1f} % for K,
  {apart[J_Byy]:.1f} % for J_Byy and {apart[J_Bzz]:.0f} % for J_Bzz. In the paper, the estimates differ by 7 % for
  J_Azz, 3 % for J_Byy and 70 % for J_Bzz.
- **Disagreement.** The estimate of J_Byy from the swing-up is {apart[J_Byy]:.1f} % larger than those from the chirps,
  which is significant. The models from the two chirps predict each other's recordings within chance; the model from the
  swing-up predicts the chirps significantly worse. In the paper, the model from the pulse predicts the other recordings
  worst, by a factor of ten in the cost.
"""


def main() -> None:
    """The page."""
    found = crossvalidate(full(*SCENARIOS))
    if not found.converged:
        raise SystemExit(f"{found.failures} of {found.fits} fits did not converge")
    values = {row.name: row.estimates for row in found.agreement.parameters}
    apart = {name: 100 * (max(own) / min(own) - 1) for name, own in values.items() if min(own) > 0}
    least, most = M_ARM * (L_ARM / 2) ** 2, max(values["J_Azz"])
    above = [f"| {' | '.join(('parameters from', *SCENARIOS))} |", "|---" * (len(SCENARIOS) + 1) + "|"]
    for fitted in SCENARIOS:
        scores = [one.cost - found.own(one.on).cost for one in found.scores if one.fitted == fitted]
        above.append(f"| {fitted} | {' | '.join(f'{score:.1f}' for score in scores)} |")
    text = PAGE.format(count=len(values), study=found, above="\n".join(above), least=least, most=most, apart=apart)
    (HERE / "furuta_full.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
