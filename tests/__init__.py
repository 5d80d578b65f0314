"""A package, so that a library which installs one of this name into site-packages does not get in the way."""

from pathlib import Path

import pytest

# A failed assertion shows its values in what tests share, too, not only in the modules that pytest collects.
pytest.register_assert_rewrite(
    *(f"{__name__}.{folder.name}" for folder in Path(__file__).parent.iterdir() if folder.is_dir()), "systemkit"
)
