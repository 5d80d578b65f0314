"""A site in memory, over a view that is none."""

from __future__ import annotations

import pytest

from tests.unit.admin.adminkit import Browser, FakeView, make_browser


@pytest.fixture
def view() -> FakeView:
    return FakeView()


@pytest.fixture
def browser(view: FakeView) -> Browser:
    return make_browser(view)
