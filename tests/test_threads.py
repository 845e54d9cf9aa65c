import threading

import pytest

from tuner.threads import run_in_thread


def test_running_ends_thread_on_exit():
    seen = []

    def watch(over):
        seen.append(threading.current_thread())
        over.wait()
        seen.append("over")

    with pytest.raises(KeyError), run_in_thread(watch):
        raise KeyError
    thread, over = seen
    assert over == "over"
    assert not thread.is_alive()


def test_running_accepts_finished_work():
    with run_in_thread(lambda over: None):
        pass
