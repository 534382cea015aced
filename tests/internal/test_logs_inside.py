"""The inside of what ``test_logs`` tests."""

from __future__ import annotations

import log_files as logs
import numpy as np
import pytest
from log_files import U
from test_logs import S, csv, refused

from spookid import Recording
from spookid.data.growing import GrowingLog
from spookid.data.logs.columns import to_si

# --- text ---


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        *[("Nm", 1), ("mNm", 1e-3), ("Ncm", 0.01), ("Nmm", 1e-3), ("Nm/A", 1), ("1/Nm", 1), ("N m", 1), ("N·m", 1)],
        *[("m/s2", 1), ("m/s²", 1), ("rad/s2", 1), ("m/s^2", 1), ("nm", 1e-9), ("amps", 1), ("mA", 1e-3), ("%", 0.01)],
        *[("°/s", np.pi / 180), ("rev/min", np.pi / 30), ("rpm", np.pi / 30), ("g_0", 9.80665), ("gram", 1e-3)],
        *[("degC", 274.15), ("", 1), ("1", 1), ("-", 1), ("V", 1), ("N/mm", 1000), ("lbf in", 4.4482216 * 0.0254)],
    ],
)
def test_units_as_logs_write_them(unit, size):
    pytest.importorskip("pint")
    assert to_si(np.ones(1), unit, "x") == pytest.approx(size, rel=1e-7)


@pytest.mark.parametrize(
    "text",
    [
        't,q,u\n0,1.5,\n"0.1",-2,3\n0.2,,4\n\n',
        "t;q;u\n0;1,5;\n0,1;-2;3\n0,2;;4\n",
        "u\tt\tq\nN cm\tms\t(deg)\n\t0\t1.5\n3\t100\t-2\n4\t200\t\n",
        "t   q  u\n0  1.5   nan\n0.1 -2  3\n",
        "# by a logger\n\nt,q,u\n0,1.5,N/A\n0.1,-2,3\n",
        "# by a logger\n# t q u\n0 1.5 nan\n0.1 -2 3\n",
    ],
)
def test_lines_that_come_one_by_one_are_read_as_those_of_a_whole_file(tmp_path, text):
    if "ms" in text:
        pytest.importorskip("pint")
    path = csv(tmp_path, text)
    run, rows = Recording.from_csv(path), list(GrowingLog(str(path), ["q", "u"]))
    np.testing.assert_allclose([row.t for row in rows], run.t, rtol=1e-15)
    for name in ("q", "u"):
        np.testing.assert_allclose([row.values.get(name, np.nan) for row in rows], run.signals[name], rtol=1e-12)


def test_other_files_are_streamed_as_a_whole(tmp_path):
    path = tmp_path / "run.mcap"
    logs.write_mcap(path)
    rows = list(GrowingLog(str(path), ["position/elbow", "command/data[1]"]))
    assert [row.t for row in rows if "position/elbow" in row.values] == S.tolist()
    assert [row.values["command/data[1]"] for row in rows if "command/data[1]" in row.values] == U[:, 1].tolist()
    refused(lambda: GrowingLog(str(path), ["q"], follow=True), "is no text, which alone can be followed; leave", path)
