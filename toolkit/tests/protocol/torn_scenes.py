"""Golden scenes of files whose last line was not written whole."""

from tests.protocol.scene import PASSED, Scene

B, C, D, E = ("infer-float", 0), ("load-int8", None), ("infer-int8", 2), ("bench", None)
A = ("load-float", None)


def torn_scenes() -> list[Scene]:
    """Scenes with a torn line: it was never written."""

    def scene(name: str, about: str, tail: bytes) -> Scene:
        one = Scene(name, about)
        one.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1).raw(tail)
        return one.word(1, "signal", 9).expect([2, ("infer-float", 2), C, D, E], load_float=PASSED)

    start = b'{"event":"sample_started","stamp":{"attempt":1,"seq":7'
    whole = b'{"event":"sample_started","stamp":{"attempt":1,"seq":6,"monotonic_ns":1,"wall_ms":1},'
    whole += b'"case_id":"infer-float","sample":2}'
    word = Scene("torn-word", "The supervisor was killed while it wrote its word: there is none.")
    word.runner().begin().load("float").start("infer-float", 0).samples("infer-float", 0, 1)
    word.words = b'{"event":"attempt_ended","stamp":{"attempt":1,"seq":0'
    word.expect([2, ("infer-float", 1), C, D, E], load_float=PASSED)
    only = Scene(
        "only-a-torn-line", "No whole line: the attempt did not begin, and its number is used again."
    )
    only.runner().raw(start)
    only.expect([1, A, B, C, D, E])
    return [
        scene("torn-line", "A torn last line was not written: the crash is the sample before it.", start),
        scene("torn-line-lacks-its-line-feed", "A last line that lacks only its line feed is torn.", whole),
        scene(
            "torn-inside-a-character", "A line torn inside a character of UTF-8.", b'{"event":"case \xe2\x82'
        ),
        scene("torn-tail-of-zeros", "Some file systems leave zeros after a loss of power.", bytes(64)),
        word,
        only,
    ]
