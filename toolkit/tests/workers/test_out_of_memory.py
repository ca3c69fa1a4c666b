"""Which files tell of kills for lack of memory."""

from pathlib import Path

from phoneproof.workers.out_of_memory import group_files


def test_version_2() -> None:
    assert group_files("0::/user.slice/app\n") == (Path("/sys/fs/cgroup/memory.events"),)


def test_version_1_beside_an_empty_version_2() -> None:
    text = "4:memory:/no/such/group\n1:cpu,cpuacct:/\n0::/\n"
    assert group_files(text) == (
        Path("/sys/fs/cgroup/memory/memory.oom_control"),
        Path("/sys/fs/cgroup/memory.events"),
    )


def test_no_linux() -> None:
    assert group_files("") == ()
