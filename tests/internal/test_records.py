"""Records behave as dataclasses of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from spookid import records


def _declared(dataclass: Callable[..., Any]) -> list[type[Any]]:
    @dataclass(frozen=True)
    class Base:
        """A base."""

        a: int
        b: tuple[int, ...] = ()
        c: list[int] = field(default_factory=list, compare=False, repr=False)

    @dataclass(frozen=True)
    class Derived(Base):
        """It has a field that is made of others, one that is given by name, and a value that no field holds."""

        d: int = field(init=False)
        e: float = field(default=2.0, kw_only=True)
        f: dataclasses.InitVar[int | None] = None

        def __post_init__(self, f: int | None) -> None:
            object.__setattr__(self, "d", self.a + (f or 1))

    class Own(Derived):
        """No dataclass: it may have attributes of its own."""

        def __init__(self) -> None:
            super().__init__(1)
            self.own = 3

    return [Base, Derived, Own]


RECORDS, STANDARD = _declared(records.dataclass), _declared(dataclasses.dataclass)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("given", "named"),
    [((1,), {}), ((1, (2,)), {}), ((1, (2,), [3]), {}), ((), {"b": (4,), "a": 1}), ((1,), {"c": []})],
)
def test_instances_are_alike(place: int, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = (kind[place](*given, **named) for kind in (RECORDS, STANDARD))
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert ours == RECORDS[place](*given, **named) == copy.deepcopy(ours) != dataclasses.replace(ours, a=7)
    assert hash(ours) == hash(RECORDS[place](*given, **named))
    assert ours != theirs


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("given", "named"), [((), {}), ((1, 2, [], 3, 4, 5), {}), ((1,), {"a": 2}), ((1,), {"z": 2})])
def test_wrong_arguments_are_refused(place: int, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (RECORDS, STANDARD):
        with pytest.raises(TypeError):
            kind[place](*given, **named)


@pytest.mark.parametrize("kind", [RECORDS, STANDARD])
def test_fields_do_not_change(kind: list[type[Any]]) -> None:
    for one, names in ((kind[0](1), "ax"), (kind[1](1), "ade"), (kind[2](), "abde")):
        for name in names:
            with pytest.raises(FrozenInstanceError):
                setattr(one, name, 0)
            with pytest.raises(FrozenInstanceError):
                delattr(one, name)
    own = kind[2]()
    assert own.own == 3
    own.own = 4
    del own.own


def test_signatures_name_what_is_taken() -> None:
    for ours, theirs in zip(RECORDS[:2], STANDARD[:2], strict=True):
        found, expected = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
        both = [[(p.name, p.kind, str(p.annotation)) for p in some.values()] for some in (found, expected)]
        assert both[0] == both[1]


def test_classes_of_both_kinds_derive_from_each_other() -> None:
    for of_base, of_derived in ((records.dataclass, dataclasses.dataclass), (dataclasses.dataclass, records.dataclass)):

        @of_base(frozen=True)
        class Base:
            a: int

        @of_derived(frozen=True)
        class Derived(Base):  # type: ignore[misc, valid-type]
            b: int = 2

        assert Derived(1) == Derived(1, 2) != Derived(2)
        with pytest.raises(FrozenInstanceError):
            Derived(1).a = 3


@records.dataclass(frozen=True, eq=False)
class Kept:
    """What a worker gets."""

    a: int
    b: int = 2


def test_records_are_pickled() -> None:
    kept = pickle.loads(pickle.dumps(Kept(1)))
    assert (kept.a, kept.b) == (1, 2)
    assert kept != Kept(1)
