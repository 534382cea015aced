"""The Furuta release as Marklund, Servin and Larson fit it: SPOOK, a given state weight κ, samples at the steps alone.

The weight is theirs, and estimates and errors hang on it: inertias shadow the truth by a quarter at this step. Leave it
out, as ``furuta_release.py`` does, and the noise is estimated with the parameters.
"""

from pathlib import Path

from spookid import Problem, Spook, load_problem

release = load_problem(Path(__file__).with_name("furuta_release.py"))
assert isinstance(release, Problem)
problem = release.with_(name="paper_furuta_release", step=0.01, state_weight=100.0, stepper=Spook(), every=1)

if __name__ == "__main__":
    print(problem.solve().summary())
