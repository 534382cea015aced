"""Words of `results/bayesian.md` around its tables."""

INTRO = """# Bayesian identification: comparison with the tables and figures of the paper

This page repeats the experiments of "Bayesian system identification under constraints and disturbance" (Martinez,
Tonneau, Mastalli) with synthetic data of robots from example-robot-data. The command `python results/bayesian.py`
writes this page; the simulated robots are in `bayesian_twins.py`, `bayesian_floating.py` and `riccati_robots.py`.

**Settings of this page, which the paper does not define.** The inertias are log-Cholesky coordinates. Except in figure
10, the priors of masses, inertias and friction have 1.3 times the true value as mean, with a standard deviation of
70 %. Errors are relative, ‖estimate − true value‖₂/‖true value‖₂. They are computed for the base parameters, separately
for inertial and friction parameters, because single inertial parameters of a chain are not identifiable.

- *Fixed-base robots*: the double pendulum with both joints driven, and the arm Z1 with six joints and a fixed gripper.
  Each joint follows five harmonics of 0.2 Hz for 6 s. Viscous and Coulomb friction are each a tenth of the joint's rms
  torque. Angles, rates and torques are sampled every 10 ms with noise of 1 mrad, 10 mrad/s and 2 %; the time step is 20
  ms.
- *Standing robots*: the biped Bolt (0.6 s until it falls; steps of 10 ms) and the quadruped B1 (1.2 s; steps of 20 ms),
  simulated by Pinocchio near one posture, with the same friction and noise. The trunk has an inertial measurement unit:
  angular velocity, specific force and orientation with noise of 2 mrad/s, 0.02 m/s² and 2 mrad. The feet are fixed to
  the ground by bilateral position constraints. The noise levels are given, as in the paper, because 60 samples do not
  determine the noise levels of two dozen sensors.
"""

FIGURE_10 = """## Figure 10: inverse and forward dynamics

{} The paper shows curves without numbers. It reports that inverse dynamics needs fewer iterations on all five robots
and has smaller errors. The table shows iterations to convergence from the same start. Positions and rates are measured,
there is no process noise, and the initial inertias differ by 0.2 from the true values (log-Cholesky coordinates of one
or two bodies). The last column is the rms error of these coordinates after the fit. The time step is 10 ms. The
recordings last 2 s, and 0.5 s for Bolt. In the forward formulation, the constraint of a step is x₊ = x ⊕ h f(x, w; θ).
In the inverse formulation, accelerations a and contact forces λ are unknowns with equality constraints.

**Comparison with the paper.** Both formulations end at the same minimum, so that their errors are equal. With the
backend `"lm"`, inverse dynamics needs fewer iterations on the UR5 and the quadrotor, as in the paper. On Bolt, inverse
dynamics needs more iterations (85 against 10, from an earlier run), because a penalty enforces its many constraints.
With the Riccati recursion, the numbers of iterations are equal, except on the quadrotor, where inverse dynamics needs
more, and on the B1, where it needs 46 and forward dynamics 37. For robots with contacts, the paper reports the largest
difference between both formulations, but this page shows none. On the B1, the derivatives of a step have 1.6 million
operations with forward dynamics and 0.2 million with inverse dynamics. The rows of the B1 are from 2026-11-27, commit
e9707697. The page [riccati.md](riccati.md) lists the computing times of one step.
"""

FIGURE_11 = """## Figure 11: constraints between parameters

{} The paper shows curves without numbers. It reports that constraints reduce the error of the inertias, most for the
symmetric biped and quadruped, and change neither iterations nor motion. On this page the means of the priors differ
from the true values by up to 70 %, separately for each body and joint. The left and the right side of the true Bolt are
equal up to 4e-6 kg m². "All of π" is the relative ℓ2 error of mass, first moments and inertias of all bodies, in units
of each body's mass and radius of gyration. This error depends on the priors, because most of these parameters are not
identifiable separately.

**Comparison with the paper.** The constraints do not change the estimated motion, as in the paper. On B1 (one trial),
the constraints reduce the error of all of π by 38 %, from 0.40 to 0.24. On Bolt (two trials), the known total mass
reduces the error in both trials, by 20 % on average. The symmetry constraint reduces the error in one trial (0.48 to
0.33) and increases it in the other (0.27 to 0.40). In the second trial, the estimated mass of a lower leg is 2.5 times
the true mass, and that of an upper leg 0.4 times. The recording of 0.6 s barely identifies how the mass is distributed
between the two. The errors of the base parameters, which the data identify, are half a per cent without constraints and
larger with constraints on both robots; the cause is not known. The number of trials is too small for reliable means.
"""

TABLE_1 = """## Table I: energy observations

{} The table shows means over the starts, with medians in brackets. The column *in σ* is the rms ratio of the friction
error to its standard error; the correct value is 1. The initial values differ from the true values by 70 %, and each
start has different measurement noise. The paper also reports costs. Costs are not compared here, because the energy
balance adds residuals.

**Comparison with the paper.** For the pendulum with estimated noise, the default of spookid, the energy balance reduces
the mean friction error by 40 %. Two of the hundred starts cause this difference. Without the energy balance, these two
fits converge to another minimum with inertial errors of 0.6 and 1.0; with the energy balance, all fits reach the
correct minimum. The energy balance does not change the median errors, because it combines the same measurement errors
of rates and torques ([sensors](../docs/howto/sensors.md#work-and-energy)). Therefore it is an option and not the
default. If the given weights are far from the true noise levels, the energy balance corrects their effect: the error
falls to 0.29 times its value, more than in the paper. As in the paper, the number of iterations rises by half and the
trajectory error increases. With such weights, the reported standard errors are too large with and without the energy
balance. On the Z1 with the same weights (five starts, 2026-11-27, commit dcb4db09), the energy balance raises the mean
friction error by 14 % and lowers the median by 8 %. One start causes the rise: its error is 0.049 instead of 0.029. The
number of iterations rises by half, as in the paper. The errors of the Z1 are a fifth of those of the pendulum without
the energy balance, so that it has less to correct. On Bolt, B1 and the Z1 with estimated noise, where only few starts
were run, the energy balance changes the errors little. If a friction estimate is at its bound, the table shows no
standard error and no ratio.
"""

TABLE_2 = """## Table II: beside regressions, under noise

{} The table shows the mean relative error of all base parameters. The noise level σ is the standard deviation of angles
[rad], rates [rad/s] and torques [N m] alike; the paper does not define it. The regressions are
`problem.regress(unknowns="declared")`, with inertias of bodies, bounds and the same priors. The cutoff frequency of
each regression is the best of seven, selected with the known truth, which no user can do. In the same way, "best step"
is the best of 20, 50 and 100 ms. Without noise, the energy balance has no weight and is omitted.

**Comparison with the paper.** In contrast to the paper, the errors of regressions stay moderate, because five harmonics
up to 1 Hz leave enough bandwidth for a low-pass filter. At σ = 0.005 and 0.01, the fit of spookid has an error 40 to
50 % smaller than the regression. The fit treats the state of every step as unknown, so that the time step acts as the
filter. A step of 20 ms is too short for σ = 0.1: the noise of the rates of single steps exceeds the width over which
Coulomb friction changes its sign (0.05 rad/s). A warning of the fit reports that the direction of sliding is not known.
With steps of 50 and 100 ms, the errors are smaller. The standard errors include most of this error. Over 16 other seeds
with steps of 20 ms (a manual test), Coulomb friction is too large by 0.4 and 0.8 standard errors on average. The ratio
of errors to standard errors has an rms of 0.9 to 1.3. With the energy balance, one fit of ten at σ = 0.005 converged to
another minimum, with an error of 42 %.

Without noise, the error of the fit has two sources: the discretization error, and linear interpolation between samples
of 10 ms, where the torque changes faster because of Coulomb friction. A regression compares torques only at the
samples.
"""

OTHERS = """## Figures 12 to 17

The page [transmissions.md](transmissions.md) repeats figures 13, 14 and 15 (the four-bar linkage of the knee, the
friction of its joints, predicted torques) with synthetic data. Figures 12, 16 and 17 show a B1 with an arm on stairs
and tracking errors of its controller. There are no results here, because they need this robot. The page
[bayesian_measured.md](bayesian_measured.md) shows measured legs and a measured double pendulum.
"""
