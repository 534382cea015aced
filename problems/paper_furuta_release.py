"""The Furuta release, fitted as by Marklund, Servin and Larson: SPOOK, a given κ, samples at the steps only.

κ is the paper's, and estimates and standard errors depend on it. With this step, discretization biases the inertias
by a quarter. ``furuta_release.py`` leaves κ out: the noise is then estimated with the parameters.
"""

from pathlib import Path

from spookid import Problem, Spook, load_problem

release = load_problem(Path(__file__).with_name("furuta_release.py"))
assert isinstance(release, Problem)
problem = release.with_(name="paper_furuta_release", step=0.01, state_weight=100.0, stepper=Spook(), every=1)

if __name__ == "__main__":
    print(problem.solve().summary())
