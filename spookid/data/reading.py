"""Recordings out of files: a method for each format, which names its options and loads its reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal, Self

from spookid.argument_checks import checked
from spookid.data.logs import datasets, messages, tables
from spookid.data.logs.columns import Clock, Options, parts
from spookid.data.logs.text import read_text
from spookid.errors import ProblemError, declared_at, listing
from spookid.files import AnyPath

_METHODS = {
    "from_csv": (".csv", ".tsv", ".txt"),
    "from_npz": (".npz",),
    "from_mat": (".mat",),
    "from_parquet": (".parquet", ".pq"),
    "from_hdf5": (".h5", ".hdf5"),
    "from_mcap": (".mcap",),
    "from_rosbag": (".bag", ".db3"),
    "from_ulog": (".ulg", ".ulog"),
    "from_json": (".json", ".jsonl", ".ndjson"),
    "from_wpilog": (".wpilog",),
}
_ENDINGS = {ending: method for method, endings in _METHODS.items() for ending in endings}


def method_for(path: Path) -> str | None:
    """Name of the method of Recording that reads a file or folder, by the extension of the file; None if unknown."""
    if path.is_dir():
        return "from_lerobot" if (path / "meta" / "info.json").is_file() else "from_rosbag"
    return _ENDINGS.get(path.suffix.lower())


class Readable:
    """Signals of a file that can be read, with their data types.

    All readers take ``signals``, the names of those that are wanted, ``name`` (the file's stem if None),
    ``closed_loop`` as a Recording does, and ``units``: the unit of each column that is not in SI with angles in rad, as
    pint writes it, ``units={"t": "ms", "theta": "deg", "a_z": "g_0"}``. Without a column ``t`` and without ``time``,
    times are the only column with a name such as ``time``, ``timestamp`` or ``time_s``. Of several samples of one clock
    at one time the last is taken, and ``notes`` say so. What cannot be read is refused with a ``ProblemError`` that
    names the file, the column, the row and the remedy.
    """

    @classmethod
    @checked
    def from_file(cls, path: AnyPath, **options: Any) -> Self:
        """Read a file by its ending: .csv, .tsv, .txt, .npz, .mat, .parquet, .h5, .hdf5, .mcap, .bag, .db3, .ulg,
        .json, .wpilog, or the folder of a ROS 2 bag or of a LeRobot dataset.

        `options` are those of the method for that format, such as `from_csv`. Raises `ProblemError` as that does, for
        another ending, and for an option that the format does not have.
        """
        path = Path(path)
        method = method_for(path)
        if method is None:
            raise ProblemError(f"{path} ends in none of {', '.join(_ENDINGS)}; say what it is with such as from_csv")
        read = getattr(cls, method)
        known = [name for name in signature(read).parameters if name != "path"]
        for option in options:
            if option not in known:
                raise ProblemError(f"{path}: {method} has no option {option!r}; it has {listing(known)}")
        return read(path, **options)  # type: ignore[no-any-return]

    @classmethod
    @checked
    def from_csv(
        cls,
        path: AnyPath,
        *,
        time: str = "t",
        signals: Iterable[str] | None = None,
        name: str | None = None,
        times: Mapping[str, str] | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
        header: int | None = None,
        delimiter: str | None = None,
        decimal: Literal[".", ","] | None = None,
        rate: float | None = None,
    ) -> Self:
        """Read comma-separated text with a header row; an empty field, ``nan``, ``N/A`` or ``null`` is a missing
        sample.

        Every column other than `time` [s] is a signal, unless `signals` chooses some; columns not chosen are not
        parsed. `times` names the time columns [s] of signals that have a clock of their own; columns may then be of
        different lengths, with empty fields below the shorter ones. A line without a number below the header is a row
        of units, which are converted; `units` goes first. Lines above the line of the `header` are not read; if
        None it is the first that is no comment (``#`` or ``%``), or the comment before it if that names the numbers in
        it.
        `delimiter`, one of ``, ; | tab`` or a blank for any number of blanks, is found in the header if it is None.
        `decimal` is what begins decimals; if None, a comma where fields are divided by something else and no number
        has a point. `rate` [Hz] is that of a text without a time column, whose samples are evenly spaced.
        """
        options = Options.of(path, name, signals, units, times)
        return cls._of(read_text(options, time, header, delimiter, decimal, rate), options, closed_loop)

    @classmethod
    @checked
    def from_npz(
        cls,
        path: AnyPath,
        *,
        time: str = "t",
        signals: Iterable[str] | None = None,
        name: str | None = None,
        times: Mapping[str, str] | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a NumPy archive: array `time` [s], shape (N,), and the signals.

        Every other numeric array of shape (N,) is a signal, unless `signals` chooses some, and each that has an array
        of its own timestamps by `times`. Arrays of Python objects are refused, because reading them would run code
        from the file.
        """
        options = Options.of(path, name, signals, units, times)
        return cls._of(tables.read_archive(options, time), options, closed_loop)

    @classmethod
    @checked
    def from_mat(
        cls,
        path: AnyPath,
        *,
        time: str = "t",
        signals: Iterable[str] | None = None,
        name: str | None = None,
        times: Mapping[str, str] | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a MATLAB file; one of version 7.3 needs h5py.

        Every array of numbers that is as long as the array `time` [s] of its struct, or of the file, is a signal:
        ``q``, ``log.q``, and of a matrix ``q[0]``, ``q[1]``. `times` names other timestamps of signals.
        """
        options = Options.of(path, name, signals, units, times)
        return cls._of(tables.read_matlab(options, time), options, closed_loop)

    @classmethod
    @checked
    def from_hdf5(
        cls,
        path: AnyPath,
        *,
        time: str = "t",
        signals: Iterable[str] | None = None,
        name: str | None = None,
        times: Mapping[str, str] | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Self:
        """Read an HDF5 file; needs h5py.

        Every dataset of numbers that is as long as the dataset `time` [s] of its group, or of one around it, is a
            signal, named by its path: ``arm/q``, and of a matrix ``arm/q[0]``, ``arm/q[1]``. `times` names the
            timestamps of signals that have others. A dataset's attribute ``units`` holds unless `units` differs.
        """
        options = Options.of(path, name, signals, units, times)
        return cls._of(tables.read_hdf5(options, time), options, closed_loop)

    @classmethod
    @checked
    def from_parquet(
        cls,
        path: AnyPath,
        *,
        time: str = "t",
        signals: Iterable[str] | None = None,
        name: str | None = None,
        times: Mapping[str, str] | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
        from_zero: bool = True,
    ) -> Self:
        """Read a Parquet file; needs pyarrow.

        Every column of numbers other than `time` is a signal, and of a column of lists ``q[0]``, ``q[1]``; `times`
        names the timestamps of signals that have others. They are seconds, or dates: then times count from the first
        one, or from 1970 on without `from_zero`.
        """
        options = Options.of(path, name, signals, units, times)
        return cls._of(tables.read_parquet(options, time, from_zero), options, closed_loop)

    @classmethod
    @checked
    def from_dataframe(
        cls,
        frame: Any,
        *,
        time: str = "t",
        signals: Iterable[str] | None = None,
        name: str | None = None,
        times: Mapping[str, str] | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
        from_zero: bool = True,
    ) -> Self:
        """Make a recording from the numerical columns of a pandas data frame.

        The time [s] is the column `time`, or the index if that has this name or holds dates; dates are counted from
        the first one, or from 1970 on without `from_zero`. `name` is ``recording`` if None.
        """
        options = Options.of(f"{declared_at()}: data frame", name or "recording", signals, units, times)
        clocks = tables.read_frame(frame, options, time, from_zero)
        return cls._of(clocks, options, closed_loop)

    @classmethod
    @checked
    def from_mcap(
        cls,
        path: AnyPath,
        *,
        topics: Iterable[str] | Mapping[str, str] | None = None,
        signals: Iterable[str] | None = None,
        name: str | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
        stamps: Literal["header", "log"] = "header",
        from_zero: bool = True,
    ) -> Self:
        """Read an MCAP file with messages of ROS 1 or 2, of Protocol Buffers, or in JSON; needs mcap.

        Signals are named as by `from_rosbag`. Without `topics` all are read that are not of ROS, and of ROS those of
        joint states and inertial units.
        """
        options = Options.of(path, name, signals, units)
        clocks = messages.read_mcap(options, messages.Topics.of(options.path, topics, stamps), from_zero)
        return cls._of(clocks, options, closed_loop)

    @classmethod
    @checked
    def from_rosbag(
        cls,
        path: AnyPath,
        *,
        topics: Iterable[str] | Mapping[str, str] | None = None,
        signals: Iterable[str] | None = None,
        name: str | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
        stamps: Literal["header", "log"] = "header",
        from_zero: bool = True,
    ) -> Self:
        """Read a bag of ROS 1, or the folder of one of ROS 2; needs rosbags.

        Without `topics` those of joint states and inertial units (``JointState``, ``Imu``) are read, and those of the
        names in `signals`. Joint states are named ``position/elbow``, ``velocity/elbow``, ``effort/elbow``; other
        numbers by topic and field, ``imu/data/angular_velocity/x``, but for covariances. `topics` chooses topics; as a
        dict it gives the prefixes of the names: ``topics={"/joint_states": "", "/commands": "command"}`` reads
        ``position/elbow`` and ``command/position/elbow``. Times are those of the messages' headers, or with
        ``stamps="log"`` those of the recorder, from the first one on, or from 1970 without `from_zero`.
        """
        options = Options.of(path, name, signals, units)
        clocks = messages.read_bag(options, messages.Topics.of(options.path, topics, stamps), from_zero)
        return cls._of(clocks, options, closed_loop)

    @classmethod
    @checked
    def from_ulog(
        cls,
        path: AnyPath,
        *,
        topics: Iterable[str] | Mapping[str, str] | None = None,
        signals: Iterable[str] | None = None,
        name: str | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
        from_zero: bool = True,
    ) -> Self:
        """Read a ULog file of PX4; needs pyulog.

        Signals are named by topic and field: ``sensor_combined/gyro_rad[0]``, of a second instance
        ``sensor_gyro_1/x``. `topics` chooses topics, as with `from_rosbag`. Times count from the first sample, or from
        the start of the device without `from_zero`.
        """
        options = Options.of(path, name, signals, units)
        clocks = messages.read_ulog(options, messages.Topics.of(options.path, topics, "log"), from_zero)
        return cls._of(clocks, options, closed_loop)

    @classmethod
    @checked
    def from_json(
        cls,
        path: AnyPath,
        *,
        time: str = "t",
        signals: Iterable[str] | None = None,
        name: str | None = None,
        times: Mapping[str, str] | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a JSON file with lists of numbers or a list of records; .jsonl and .ndjson have one record per line.

        Signals are named by their paths: ``arm/q``, and of lists in records ``q[0]``, ``q[1]``. If records are the
        only list in the file, their names alone are taken. A number beside the lists is the same for all samples.
        """
        options = Options.of(path, name, signals, units, times)
        return cls._of(datasets.read_json(options, time), options, closed_loop)

    @classmethod
    @checked
    def from_lerobot(
        cls,
        path: AnyPath,
        *,
        episode: int | None = None,
        signals: Iterable[str] | None = None,
        name: str | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
    ) -> Self:
        """Read an episode of a LeRobot dataset of version 2 or 3, the first if None; needs pyarrow.

        `path` is the folder with ``meta/info.json``, whose names of motors name the signals:
        ``observation.state/elbow_flex``, ``action/elbow_flex``. `signals` and `units` take the name of an array for all
        its entries: ``units={"observation.state": "deg", "action": "deg"}``. Times are frames by their rate.
        """
        options = Options.of(path, name or f"{Path(path).name}-{episode or 0}", signals, units)
        clocks, options = datasets.read_lerobot(options, episode)
        return cls._of(clocks, options, closed_loop)

    @classmethod
    @checked
    def from_wpilog(
        cls,
        path: AnyPath,
        *,
        topics: Iterable[str] | Mapping[str, str] | None = None,
        signals: Iterable[str] | None = None,
        name: str | None = None,
        closed_loop: bool | None = None,
        units: Mapping[str, str] | None = None,
        from_zero: bool = True,
    ) -> Self:
        """Read a WPILib data log file (.wpilog).

        Entries of numbers are signals: ``drive/position``, and of arrays ``drive/states[0]``. `topics` chooses entries,
        as with `from_rosbag`. Times count from the first sample, or as the robot does without `from_zero`.
        """
        options = Options.of(path, name, signals, units)
        clocks = datasets.read_wpilog(options, messages.Topics.of(options.path, topics, "log"), from_zero)
        return cls._of(clocks, options, closed_loop)

    @classmethod
    def _of(cls, clocks: list[Clock], options: Options, closed_loop: bool | None) -> Self:
        t, signals, times, notes = parts(clocks, options)
        known = {"closed_loop": closed_loop, "times": times, "notes": notes, "units": options.units}
        return cls(t, signals, options.name, **known)  # type: ignore[call-arg]
