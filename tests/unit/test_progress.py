"""Without a terminal, progress is a line after some epochs, not a bar."""

from gauge.training.loop import Epoch
from gauge.training.progress import lines, stage_progress


def epoch(number, score=None):
    return Epoch(number, 100, {"task": 0.5}, score, seconds=1.0)


def test_a_line_after_the_first_and_last_epoch_and_every_30_seconds():
    shown, now = [], [0.0]
    on_epoch = lines(shown.append, clock=lambda: now[0])
    for number in range(1, 101):  # an epoch every second
        now[0] += 1
        on_epoch("backbone", epoch(number))
    assert [line.split(",")[0] for line in shown] == [
        f"backbone: epoch {number} of 100" for number in (1, 31, 61, 91, 100)
    ]
    on_epoch("mask", epoch(1, score=0.875))
    assert shown[-1] == "mask: epoch 1 of 100, validation 87.5 %"


def test_a_pipe_gets_lines(capsys):
    with stage_progress() as on_epoch:
        on_epoch("backbone", epoch(1))
    assert capsys.readouterr().err == "backbone: epoch 1 of 100, task 0.5\n"
