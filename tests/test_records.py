"""Records against the standard library's dataclasses, which they replace."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import ClassVar

import pytest

from spookid import records


def declared(dataclass):
    """The same classes by either."""

    @dataclass(frozen=True)
    class Point:
        """A point."""

        x: float
        y: float = 2.0
        tags: list[str] = dataclasses.field(default_factory=list, compare=False, repr=False)
        count: ClassVar[int] = 3

    @dataclass(frozen=True)
    class Named(Point):
        name: str = dataclasses.field(default="", kw_only=True)
        double: float = dataclasses.field(init=False)
        scale: dataclasses.InitVar[float] = 2.0

        def __post_init__(self, scale: float) -> None:
            object.__setattr__(self, "double", scale * self.x)

    @dataclass(frozen=True, eq=False)
    class Apart:
        value: int
        other: int = dataclasses.field(default=4, repr=False)

        def __repr__(self) -> str:
            return "apart"

    @dataclass
    class Loose:
        value: int = 1

        def __hash__(self) -> int:
            return 7

    @dataclass(kw_only=True)
    class ByName:
        value: int
        more: int = 1

    @dataclass(frozen=True, slots=True)
    class Slim:
        value: int

    @dataclass(frozen=True)
    class Narrower(Point):
        """Whose default is that of the base."""

        y: int

    return Point, Named, Apart, Loose, ByName, Slim, Narrower


OURS, THEIRS = declared(records.dataclass), declared(dataclasses.dataclass)
CALLS = [
    (0, (1.0,), {}),
    (0, (1.0, 3.0, ["a"]), {}),
    (1, (1.0,), {"name": "n"}),
    (1, (1.0, 2.0, [], 5.0), {}),
    (2, (1,), {"other": 5}),
    (3, (), {}),
    (4, (), {"value": 2}),
    (5, (3,), {}),
    (6, (3,), {}),
]


@pytest.mark.parametrize(("place", "given", "named"), CALLS)
def test_instances_are_alike(place, given, named):
    one, other = (classes[place](*given, **named) for classes in (OURS, THEIRS))
    again, different = OURS[place](*given, **named), object()
    assert repr(one) == repr(other)
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert (one == again) is (other == THEIRS[place](*given, **named))
    assert one != different
    assert copy.copy(one).__class__ is OURS[place]
    if place < 3:
        assert (hash(one) == hash(again)) is (hash(other) == hash(THEIRS[place](*given, **named)))


@pytest.mark.parametrize("place", range(len(OURS)))
def test_classes_are_alike(place):
    one, other = OURS[place], THEIRS[place]
    assert str(inspect.signature(one)) == str(inspect.signature(other))
    assert [f.name for f in dataclasses.fields(one)] == [f.name for f in dataclasses.fields(other)]
    assert one.__match_args__ == other.__match_args__
    assert (one.__hash__ is None) is (other.__hash__ is None)


def test_frozen_ones_are_protected_and_replaced():
    one = OURS[1](1.0, name="n")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2.0
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    assert dataclasses.replace(one, x=3.0, scale=2.0).double == 6.0
    assert one.tags is not OURS[1](1.0).tags


def test_the_standard_librarys_go_on_from_them_and_the_other_way_round():
    @dataclasses.dataclass(frozen=True)
    class Further(OURS[0]):
        z: float = 0.0

    @records.dataclass(frozen=True)
    class Back(THEIRS[0]):
        z: float = 0.0

    assert repr(Further(1.0, z=2.0)).endswith("Further(x=1.0, y=2.0, z=2.0)")
    assert repr(Back(1.0, z=2.0)).endswith("Back(x=1.0, y=2.0, z=2.0)")


def test_what_is_missing_is_named():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        OURS[0]()


def test_instances_travel():
    from spookid.solvers.levenberg_marquardt import LevenbergMarquardt

    solver = LevenbergMarquardt(max_iterations=7)
    assert pickle.loads(pickle.dumps(solver)) == solver
