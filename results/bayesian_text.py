"""Words of `results/bayesian.md` around its tables."""

INTRO = """# Bayesian identification: tables and figures of the paper beside ours

"Bayesian system identification under constraints and disturbance" (Martinez, Tonneau, Mastalli), on twins of robots of
example-robot-data. This page is made by `python results/bayesian.py`; the twins are in `bayesian_twins.py`,
`bayesian_floating.py` and `riccati_robots.py`.

**What was taken; the paper defines none of this.** Inertias are log-Cholesky coordinates. Masses, inertias and friction
are believed beforehand to be 1.3 of the true ones, ± 70 %, but in figure 10. Errors are relative,
‖found − true‖₂/‖true‖₂, of the base parameters that forces hang on, inertial ones and those of friction apart: single
inertial parameters of a chain are not seen.

- *Fixed*: the double pendulum, both joints driven, and the arm Z1 (six joints, the gripper held). Five harmonics of 0.2
  Hz in each joint, 6 s, with viscous and Coulomb friction of a tenth of each joint's rms torque; angles, rates and
  torques every 10 ms, with noise of 1 mrad, 10 mrad/s and 2 %, in steps of 20 ms.
- *On their feet*: the biped Bolt (0.6 s, then it falls; steps of 10 ms) and the quadruped B1 (1.2 s, 20 ms), simulated
  by Pinocchio near a posture, with the same friction and noise, and an inertial unit on the trunk: angular velocity,
  specific force and orientation with noise of 2 mrad/s, 0.02 m/s² and 2 mrad. Feet hold by bilateral rows at position
  level. The noise is given, as in the paper: 60 samples do not tell that of two dozen sensors.
"""

FIGURE_10 = """## Figure 10: inverse and forward dynamics

{}
The paper shows curves and no numbers; what it says is that inverse dynamics needs fewer iterations on all five and
errs less. Iterations to convergence from the same start: measured positions and rates, no disturbance, inertias 0.2 off (the
coordinates of one or two bodies; the last column is their rms error where the fit ends). Step of 10 ms, 2 s, of Bolt 0.5
s. Forward: x₊ = x ⊕ h f(x, w; θ); inverse: accelerations a and contact forces λ are unknowns with hard rows.

**What appears and what not.** Both formulations end at the same minimum, so that there is no difference in errors. With
`"lm"` inverse dynamics needs fewer iterations on the UR5 and the quadrotor, as in the paper; on Bolt it is the other
way round (85 against 10, from an earlier run), since many hard rows are held by a penalty there. With the recursion
there is no gap but one against inverse dynamics on the quadrotor. With contacts, where the paper has its largest
gap, we see none. *B1, forward*: no data; derivatives of its expressions with twelve rows of feet take too long. Steps and times
of these are in [riccati.md](riccati.md).
"""

FIGURE_11 = """## Figure 11: constraints between parameters

{}
The paper shows curves and no numbers; it says that constraints lower the error of inertias and leave iterations and
motion as they are, most where there is a symmetry: on biped and quadruped. Here what is believed beforehand is off
by up to 70 % either way, for each body and joint by a number of its own; the true robots are mirror images to 1e-5.
"All of π" is the relative ℓ2 error of mass, first moments and inertias of all bodies, each in units of its own mass and
radius of gyration; priors have their say in it, since most of these are not seen one by one.

"""

TABLE_1 = """## Table I: energy observations

{}
Means over the starts, medians in brackets; *in σ*: errors of friction over what the fit says of them, root mean square;
1 is right. Starts are off by 70 %, each with noise of its own.

"""

TABLE_2 = """## Table II: beside regressions, under noise

{}
"""

OTHERS = """## Figures 12 to 17

Figures 13, 14 and 15, the four-bar of the knee, friction of its joints and predicted torques, are on twins in
[transmissions.md](transmissions.md). Figures 12, 16 and 17 show a B1 with an arm on stairs and tracking errors of its
controller: no data, they need that hardware. [bayesian_measured.md](bayesian_measured.md) has measured legs and a
double pendulum.
"""
