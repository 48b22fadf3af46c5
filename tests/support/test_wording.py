"""Messages name options as the caller writes them."""

from __future__ import annotations

from nnefc.support.wording import shell_wording, wording


def test_messages_of_the_shell_name_its_options() -> None:
    assert wording("threads=2", "--threads 2") == "threads=2"
    with shell_wording():
        assert wording("threads=2", "--threads 2") == "--threads 2"
        with shell_wording():
            pass
        assert wording("threads=2", "--threads 2") == "--threads 2"
    assert wording("threads=2", "--threads 2") == "threads=2"
