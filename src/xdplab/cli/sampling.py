"""The frames that programs are measured on: those that were built, and one for each path that the
packets of captures take."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdplab.cli.frames import Frames
from xdplab.engines.base import Engine, action_name
from xdplab.experiment import Stop
from xdplab.packets.frame import Frame
from xdplab.records import Warning
from xdplab.suites.own import FrameClass, Own, classify

_SAMPLE = 2048
"""Frames of a capture that are looked at: the standard error of a share is then 1.1 % at most."""

_SEED = 20


@dataclass(frozen=True, slots=True)
class Sampled:
    """What is measured on, and what must be known of it."""

    classes: Sequence[FrameClass]
    warnings: Sequence[Warning] = ()


def sampled(
    own: Sequence[Own], frames: Frames, engine: Engine, captured: bool, stop: Stop
) -> Sampled:
    """Built frames as they are; where frames are `captured`, one for each action of the first
    program, with its share."""
    if not captured:
        given = list(frames)
        labels = _labels(given, frames)
        return Sampled(
            [FrameClass(label, frame) for label, frame in zip(labels, given, strict=True)]
        )
    sample, total = _reservoir(frames, stop)
    packets = [frame for _, frame in sample]
    actions = classify(own[0], packets, engine)
    others = [sum(map(operator.ne, classify(other, packets, engine), actions)) for other in own[1:]]
    warnings = [
        Warning(
            "other-actions",
            f"{other.name} returned something else than {own[0].name} for {count} of "
            f"{len(sample)} packets",
            "make sure that both are meant to do the same",
        )
        for other, count in zip(own[1:], others, strict=True)
        if count
    ]
    if total > len(sample):
        warnings.append(
            Warning(
                "sampled-capture",
                f"shares are those of {len(sample)} packets drawn at random from {total}",
            )
        )
    by_action: dict[int, list[tuple[int, Frame]]] = {}
    for action, (number, frame) in zip(actions, sample, strict=True):
        by_action.setdefault(action, []).append((number, frame))
    classes = []
    for action, members in sorted(by_action.items(), key=lambda item: -len(item[1])):
        # The packet of middle length stands for its path.
        ranked = sorted(members, key=lambda member: (len(member[1].data), member[0]))
        number, frame = ranked[len(ranked) // 2]
        label = f"{action_name(action)}, packet {number}"
        classes.append(FrameClass(label, frame, len(members) / len(sample)))
    return Sampled(classes, warnings)


def _labels(given: Sequence[Frame], frames: Frames) -> Iterator[str]:
    for number, (text, _) in enumerate(zip(frames.built, given, strict=True), 1):
        yield text if frames.built.count(text) == 1 else f"{text} ({number})"


def _reservoir(frames: Frames, stop: Stop) -> tuple[list[tuple[int, Frame]], int]:
    """Packets drawn at random, each as likely, and how many there were: a capture of any size is
    read once and never held (Vitter's algorithm R, ACM TOMS 11, 1985)."""
    chance = random.Random(_SEED)
    kept: list[tuple[int, Frame]] = []
    total = 0
    for frame in frames:
        total += 1
        if len(kept) < _SAMPLE:
            kept.append((frames.number, frame))
        elif (place := chance.randrange(total)) < _SAMPLE:
            kept[place] = (frames.number, frame)
        if stop.asked:
            break
    return sorted(kept, key=lambda one: one[0]), total
