"""Knows a benchmark's questions inside any prompt (`mbbq_gen.recognition`), so that an oracle can answer them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mbbq_gen.fake_server.asked import Turn
from mbbq_gen.recognition import QuestionIndex, Recognised, plain
from mbbq_gen.records import Instance, Message, Presentation, Request


class BenchmarkQuestions:
    """The questions of benchmarks."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._index = QuestionIndex(instances)

    def __len__(self) -> int:
        return len(self._index)

    def find(self, turns: Sequence[Turn], digest: str) -> Request | None:
        """The question that the last message asks, or else the whole conversation."""
        texts = [turns[-1].text]
        if len(turns) > 1:
            texts.append("\n".join(turn.text for turn in turns))
        for text in texts:
            found = self._index.asked_in(text)
            if found:
                return _request(found[0], plain(text), digest)
        return None

    def close(self) -> None:
        """Nothing to free."""


def _request(found: Recognised, text: str, digest: str) -> Request:
    """The question as this prompt shows it; where there are no labels, the options' texts stand for them."""
    instance = found.known.instance
    message = Message(role="user", content=text)
    presentation = Presentation(
        presentation_id=digest[:20],
        instance_key=instance.key,
        language=instance.language,
        variant="recognised",
        label_style="recognised",
        order=found.order,
        labels=found.labels or tuple(instance.options[index].text for index in found.order),
        messages=(message,),
    )
    return Request(request_key=digest, messages=(message,), presentation=presentation, instance=instance)
