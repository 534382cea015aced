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

Written by `python results/furuta_full.py`. The problem is `problems/furuta_full.py`: a Quanser Qube. Three
scenarios are fitted one by one and together: a swing-up, and a chirp of the motor's voltage to either side. Each model
is then judged on the other two recordings, its {count} parameters fixed. States, noise, and the spring of the encoder's
cable are estimated again: chirps and swing-ups are of different days, and the cable lies otherwise.

```
{study}
```

By how much −2 log L of a recording (columns) is higher with the parameters from another one (rows) than with its own:

{above}

- **What is estimated.** J_Axx and J_Ayy of the paper's table do not affect the motion, because the arm turns about one
  axis. They have a value and are not estimated. The other parameters are estimated from each scenario. Coulomb
  friction is at its bound of zero where viscous friction explains as much.
- **J_Azz is about the axle.** With the arm's centre of mass at half its length, the inertia about the axle would be at
  least {least:.3g} kg m². The data say at most {most:.3g}, so that J_Azz of a fit with that centre of mass is at its
  bound. The centre of mass is not published, and the data determine the inertia about the axle alone.
- **What agrees.** From the smallest to the largest estimate J_Azz differs by {apart[J_Azz]:.1f} %, K by
  {apart[K]:.1f} %, J_Byy by {apart[J_Byy]:.1f} % and J_Bzz by {apart[J_Bzz]:.0f} %. In the paper J_Azz differs by 7 %,
  J_Byy by 3 % and J_Bzz by 70 %.
- **What does not.** J_Byy of the swing-up is {apart[J_Byy]:.1f} % larger, which is more than its errors say. The models
  of the two chirps explain each other within what chance does, and that of the swing-up explains neither as well. In
  the paper it is the model of the pulse that explains the others worst, by a factor of ten in the cost.
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
