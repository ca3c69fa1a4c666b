"""Whether a source model is still the one that a run was planned with."""

from phoneproof.errors import SourceModelError


def refuse_changed(found_sha256: str, planned_sha256: str | None, place: str) -> None:
    """SourceModelError if the model's content is not what was planned; None planned nothing.

    place: the source model as the request names it.
    """
    if planned_sha256 is not None and planned_sha256 != found_sha256:
        raise SourceModelError(
            "The source model has changed since the run was planned.",
            where=place,
            next_step="Start the command again.",
            planned_sha256=planned_sha256,
            found_sha256=found_sha256,
        )
