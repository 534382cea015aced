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
errs less. Iterations to convergence from the same start: measured positions and rates, no disturbance, inertias 0.2
off (the coordinates of one or two bodies; the last column is their rms error where the fit ends). Steps of 10 ms, 2 s
long, for Bolt 0.5 s. Forward: x₊ = x ⊕ h f(x, w; θ); inverse: accelerations a and contact forces λ are unknowns
with hard rows.

**What appears and what not.** Both formulations end at the same minimum, so that there is no difference in errors. With
`"lm"` inverse dynamics needs fewer iterations on the UR5 and the quadrotor, as in the paper; on Bolt it is the other
way round (85 against 10, from an earlier run), since many hard rows are held by a penalty there. With the recursion
there is no gap but one against inverse dynamics on the quadrotor. With contacts, where the paper has its largest
gap, we see none. *B1, forward*: no data; derivatives of its expressions with twelve rows of feet take too long. Times
of steps are in [riccati.md](riccati.md).
"""

FIGURE_11 = """## Figure 11: constraints between parameters

{}
The paper shows curves and no numbers; it says that constraints lower the error of inertias and leave iterations and
motion as they are, most where there is a symmetry: on biped and quadruped. Here what is believed beforehand is off
by up to 70 % either way, for each body and joint by a number of its own; left and right of the true Bolt are alike up
to 4e-6 kg m².
"All of π" is the relative ℓ2 error of mass, first moments and inertias of all bodies, each in units of its own mass and
radius of gyration; priors have their say in it, since most of these are not seen one by one.

**What appears and what not.** The motion stays as it is, as in the paper. On B1 (one trial) the error of all of π falls
by 38 %, from 0.40 to 0.24. On Bolt (two trials) the total mass lowers it in both, by 20 % in the mean; mirror images
lower it in one (0.48 to 0.33) and raise it in the other (0.27 to 0.40), where a lower leg gets 2.5 of its mass and an
upper one 0.4: within 0.6 s next to nothing tells how mass goes from one to the other. Base parameters, which the data
do tell, are known to half a per cent without constraints, and get worse with them on both robots; why is not known.
So few trials are no mean.
"""

TABLE_1 = """## Table I: energy observations

{}
Means over the starts, medians in brackets; *in σ*: errors of friction over what the fit says of them, root mean square;
1 is right. Starts are off by 70 %, each with noise of its own. Costs, which the
paper tells, too, are left out: rows are added.

**What appears and what not.** On the pendulum with the noise estimated, the default here, energy rows lower the mean
error of friction by 40 %. That is two starts of the hundred: without energy rows they end, said to have converged, at
another minimum, inertial errors 0.6 and 1.0; with them all end at the right one. The medians stay as they are: the rows
are combinations of the same errors of rates and torques
([sensors](../docs/howto/sensors.md#work-and-energy)), so that they are an option and no default. With weights given
that are far from the noise they put right what these do wrong: the error falls to 0.29 of it, more than in the paper,
iterations rise by half and the trajectory errs more, as there. The errors that such a fit tells are too wide with and
without. On Bolt, B1 and the Z1, of which few starts were run, energy rows change little. Where a friction ends at its
bound there is no error, and none over it.
"""

TABLE_2 = """## Table II: beside regressions, under noise

{}
Mean relative error of all base parameters; σ is the standard deviation of angles [rad], rates [rad/s] and torques [N m]
alike, which the paper does not say. Regressions are `problem.regress(unknowns="declared")`, with inertias of bodies,
bounds and the same priors; the cutoff of each is the best of seven, chosen with the truth in hand, as no user can;
"best step" is the best of 20, 50 and 100 ms, chosen likewise. Without noise energy rows have no weight of their own and
are left out.

**What appears and what not.** Regressions do not blow up on this slow, periodic motion: five harmonics up to 1 Hz
leave a filter room. At σ = 0.005 and 0.01 ours is the better one, by 40 to 50 %. It takes the state of every step
for unknown, and so has the step for a filter: 20 ms are too short for σ = 0.1, where rates of single steps are known
less well than the width over which Coulomb friction turns (0.05 rad/s), and a notice of the fit says that the direction
of sliding is not known. Steps of 50 and 100 ms help. Most of that error is one that the fit itself tells: over 16 other
seeds at 20 ms (tried by hand) Coulomb friction is 0.4 and 0.8 of its standard errors too large in the mean, and errors
over standard errors have root mean squares of 0.9 to 1.3. Energy rows led one fit of ten at σ = 0.005 to another
minimum, said to have converged, with an error of 42 %.

Without noise ours has the error of its step and of the samples: between samples of 10 ms the torque turns with Coulomb
friction faster than a line between them; a regression compares torques at the samples alone.
"""

OTHERS = """## Figures 12 to 17

Figures 13, 14 and 15, the four-bar of the knee, friction of its joints and predicted torques, are on twins in
[transmissions.md](transmissions.md). Figures 12, 16 and 17 show a B1 with an arm on stairs and tracking errors of its
controller: no data, they need that hardware. [bayesian_measured.md](bayesian_measured.md) has measured legs and a
double pendulum.
"""
