"""Some of the cases of `make hostile`: no traceback, one line of refusal, and no files left."""

from __future__ import annotations

from itertools import islice

from tests import hostile


def test_hostile_names_and_files_are_answered_in_a_line() -> None:
    with hostile.enter_folder():
        cases = [
            *islice(hostile.make_name_cases(), 0, None, 53),
            *islice(hostile.make_file_cases(), 0, None, 29),
            *islice(hostile.make_recording_cases(), 0, None, 29),
        ]
        faults = {case.name: fault for case in cases if (fault := hostile.judge(case))}
    assert len(cases) > 60
    assert not faults


def test_a_fault_is_seen() -> None:
    with hostile.enter_folder():
        right = hostile.Case("", ("list", "targets"))
        assert not hostile.judge(right)
        assert "exit code 0" in hostile.judge(hostile.Case("", right.words, hostile.REFUSED))
