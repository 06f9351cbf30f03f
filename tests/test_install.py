"""`.ci/install`: which Python it takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

INSTALL = Path(__file__).resolve().parent.parent / ".ci" / "install"
INTELS = f"""#!/bin/sh
[ "$1" = -c ] || exit 0
exec {sys.executable} -c "import platform, sys
sys.platform, platform.machine = 'darwin', lambda: 'x86_64'
$2"
"""


def test_a_python_for_intel_is_passed_over_on_a_mac(tmp_path: Path) -> None:
    """MLX has no wheel for it: pip would say that there is no such version."""
    programs, script = tmp_path / "bin", tmp_path / ".ci" / "install"
    programs.mkdir()
    for name in ("cat", "dirname", "id", "rm"):
        (programs / name).symlink_to(shutil.which(name) or "")
    (programs / "python3.11").write_text(INTELS)
    (programs / "python3.11").chmod(0o755)
    script.parent.mkdir()
    shutil.copy(INSTALL, script)
    told = subprocess.run(
        ["/bin/sh", script, "python"], env={"PATH": str(programs)}, capture_output=True, text=True
    )
    assert told.returncode == 1
    assert told.stderr.count("\n") == 1
    assert "/opt/homebrew" in told.stderr
