"""The text field that has the focus when its page opens.

Unfold hides the page (`x-cloak`) until Alpine has started. A browser that draws before that has
nothing to focus, and drops `autofocus` for good: on a slow machine, often.
"""

from __future__ import annotations

from unfold.widgets import UnfoldAdminTextInputWidget

FOCUS_IF_NOTHING_HAS_IT = "$nextTick(() => document.activeElement === document.body && $el.focus())"


class FirstField(UnfoldAdminTextInputWidget):
    def __init__(self) -> None:
        super().__init__(attrs={"x-init": FOCUS_IF_NOTHING_HAS_IT, "autocomplete": "off"})
