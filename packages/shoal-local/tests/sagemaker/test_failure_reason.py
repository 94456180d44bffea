"""A FailureReason fits the 1024 characters that the API has for it."""

from __future__ import annotations

from shoal_local.sagemaker.jobs.base.job import failure_reason


def test_a_long_reason_keeps_its_beginning_and_the_exit_code() -> None:
    shortened = failure_reason(f"AlgorithmError: {'x' * 2000}, exit code: 137")
    assert len(shortened) == 1024
    assert (shortened[:16], shortened[-16:]) == ("AlgorithmError: ", ", exit code: 137")


def test_words_after_an_exit_code_that_are_none_are_cut_like_the_others() -> None:
    assert len(failure_reason(f"ClientError: x, exit code: {'9' * 10} {'z' * 2000}")) == 1024


def test_a_long_reason_without_an_exit_code_is_cut_at_its_end() -> None:
    assert failure_reason("ClientError: " + "y" * 2000) == "ClientError: " + "y" * 1011
