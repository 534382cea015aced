"""``python -m spookid``."""

from __future__ import annotations

import sys

from spookid.cli.main import main

sys.exit(main())
