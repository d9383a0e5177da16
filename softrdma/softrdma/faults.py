# SPDX-License-Identifier: BSD-3-Clause
"""Faults on demand: what goes wrong on the software host, how often, and when.

A rule is a word and what it is about, as text (``"completion:op=rdma_write,status=REM_ACCESS,nth=3"``) or as keywords::

    with softrdma.faults.here() as faults:                   # of this process
        faults.add("completion", op="rdma_write", status="REM_ACCESS", nth=3)
        faults.link_down("rxe0")

``attach()`` gives the same for programs that run already, from another process. The same rules can stand in the
environment (``SOFTRDMA_FAULTS="seed=7;drop:probability=0.1"``) or on the command line
(``python -m softrdma run --fault drop:probability=0.1 -- PROGRAM``).
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Callable, NamedTuple, Union

__all__ = ["FaultError", "Faults", "Rule", "attach", "here"]

_SLOTS = 256
_REPLY = 32 << 10

Value = Union[str, int, float, bool, bytes, "Iterable[str]"]


class FaultError(ValueError):
    """The host did not accept a rule or a command; the message says what was wrong with it."""


class Rule(NamedTuple):
    """A rule that is in place, and what has come of it so far."""

    id: int
    seen: int  #: how often something came by that it is about
    fired: int  #: how often it struck
    text: str


#: Sends a command, returns the answer.
_Send = Callable[[str], str]


def _gid(value: Value) -> str:
    if isinstance(value, bytes):
        return str(ipaddress.IPv6Address(value))
    return str(value)


def _text(key: str, value: Value) -> str:
    if key == "gid":
        return _gid(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".") or "0"
    if isinstance(value, (str, int)):
        name = getattr(value, "name", None)  # an enum's member
        return str(name) if isinstance(name, str) and key != "qp" else str(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return "|".join(_text(key, word) for word in value)
    raise TypeError(f"{key} cannot be {value!r}")


def rule(kind: str, **keys: Value | None) -> str:
    """The text of a rule. ``for_`` stands for ``for``; a key that is None is left out; ``op`` may be several."""
    pairs = [f"{key.rstrip('_')}={_text(key.rstrip('_'), value)}" for key, value in keys.items() if value is not None]
    return f"{kind}:{','.join(pairs)}" if pairs else kind


class Faults:
    """The faults of one program or several. ``here()`` and ``attach()`` make one.

    In a ``with`` statement, everything is as it was before when the block ends: no rules, all NICs there, linked up,
    with their first addresses.
    """

    def __init__(self, targets: Sequence[_Send]) -> None:
        self._targets = list(targets)

    def __enter__(self) -> Faults:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reset()

    def command(self, text: str) -> list[str]:
        """Sends a command as text (``"list"``) to each of the programs, and returns what each answers.

        A program that has ended meanwhile is left out from then on.
        """
        answers = []
        for send in list(self._targets):
            try:
                answers.append(send(text))
            except ProcessLookupError:
                self._targets.remove(send)
        return answers

    def add(self, kind: str, **keys: Value | None) -> list[int]:
        """Puts rules in place and returns their numbers.

        ``kind`` is a word, with the rest as keywords, or the whole text of a rule, or of several with semicolons
        between. With several programs the numbers are those of the first.
        Raises FaultError when one is not understood; then none of them is in place.
        """
        answers = self.command("add " + (rule(kind, **keys) if keys else kind))
        return [int(number) for number in answers[0].split()] if answers else []

    def remove(self, number: int) -> None:
        """Takes a rule away; what it has done stays done."""
        self.command(f"remove {number}")

    def clear(self) -> None:
        """Takes all rules away; what they have done stays done."""
        self.command("clear")

    def reset(self) -> None:
        """No rules, all NICs there and linked up with their first addresses; rules are numbered from 1 again."""
        self.command("reset")

    def rules(self) -> list[Rule]:
        """The rules in place, with their counts; of several programs, those of the first."""
        found = []
        for line in "".join(self.command("list")[:1]).splitlines():
            number, seen, fired, text = line.split(" ", 3)
            found.append(Rule(int(number), int(seen), int(fired), text))
        return found

    def fired(self, number: int) -> int:
        """How often the rule has struck, in all the programs together."""
        total = 0
        for answer in self.command("list"):
            for line in answer.splitlines():
                words = line.split(" ", 3)
                total += int(words[2]) if int(words[0]) == number else 0
        return total

    def objects(self) -> dict[str, int]:
        """How many contexts, QPs and so on exist in all the programs together, and the bytes of their rings."""
        total: dict[str, int] = {}
        for answer in self.command("objects"):
            words = answer.split()
            for name, count in zip(words[::2], words[1::2]):
                total[name] = total.get(name, 0) + int(count)
        return total

    @property
    def seed(self) -> int:
        """What decides all chances. The same seed, rules and order of requests give the same faults."""
        return int(self.command("seed")[0])

    @seed.setter
    def seed(self, value: int) -> None:
        self.command(f"seed {value}")

    # Shorter words for what is asked for most.

    def link_down(self, device: str | None = None, *, for_: float | None = None) -> None:
        """Takes the link of a NIC (of all without a name) down: PORT_ERR in every context, and no packet passes.

        With ``for_``, it comes up again after that many seconds.
        """
        self.add("link", state="down", device=device, for_=for_)

    def link_up(self, device: str | None = None) -> None:
        """The link is up again: PORT_ACTIVE in every context."""
        self.add("link", state="up", device=device)

    def set_gid(self, device: str, index: int, gid: str | bytes | None) -> None:
        """Puts an address (text or 16 bytes) at an index of the GID table, or empties it: GID_CHANGE."""
        self.add("gid", device=device, index=index, gid="none" if gid is None else gid)

    def fail_call(self, call: str, errno: int | str, *, nth: int = 1, times: int = 1) -> int:
        """The nth call of that verb from now on (``"reg_mr"``, ``"create_qp"``) fails; returns the rule's number."""
        return self.add("errno", call=call, errno=errno, nth=nth, times=times)[0]

    def fail_request(self, status: int | str, **where: Value | None) -> int:
        """A request completes with that error: the next one, or the one that the keywords name."""
        return self.add("completion", status=status, **where)[0]


def here() -> Faults:
    """The faults of this process and the children it forks. RuntimeError when it does not run on the host."""
    try:
        call = ctypes.CDLL(None).softrdma_faults
    except AttributeError:
        raise RuntimeError("this process does not run on the software host: start it with softrdma run") from None
    call.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]

    def send(command: str) -> str:
        reply = ctypes.create_string_buffer(_REPLY)
        failed = call(command.encode(), reply, len(reply))
        text = reply.value.decode(errors="replace")
        if failed:
            raise FaultError(text)
        return text

    return Faults([send])


class _Socket:
    """The control socket of one region: a process and the children it has forked."""

    def __init__(self, fabric: str, slot: int, timeout: float) -> None:
        self.address = f"\0softrdma/{os.geteuid()}/{fabric}/c{slot}.0"
        self.timeout = timeout

    def __call__(self, command: str) -> str:
        deadline = time.monotonic() + self.timeout
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mine:
            mine.settimeout(0.05)
            mine.bind("")  # Linux chooses an abstract name
            try:
                mine.connect(self.address)
                mine.send(command.encode())
                while True:
                    try:
                        answer = mine.recv(_REPLY + 1).decode(errors="replace")
                        break
                    except socket.timeout:
                        if time.monotonic() > deadline:
                            raise
                        mine.connect(self.address)  # is anybody there still?
            except ConnectionError as error:
                raise ProcessLookupError("the program has ended") from error
        if answer[:1] != "+":
            raise FaultError(answer[1:])
        return answer[1:]


def attach(fabric: str | None = None, *, pid: int | None = None, timeout: float = 5.0) -> Faults:
    """The faults of programs that run already: of all on a fabric, or of the one that a process belongs to.

    ``fabric`` is that of the environment unless given. Programs that start later are not among them, nor are those
    that have not opened a device yet. Raises ProcessLookupError when there is none.
    """
    name = fabric or os.environ.get("SOFTRDMA_FABRIC") or "default"
    found = []
    for slot in range(_SLOTS):
        target = _Socket(name, slot, timeout)
        try:
            pids = [int(word) for word in target("who").split()]
        except OSError:
            continue  # nobody has that slot, or whoever had it has gone
        if pid is None or pid in pids:
            found.append(target)
    if not found:
        whom = f"process {pid}" if pid is not None else "no process"
        raise ProcessLookupError(f"{whom} {'is not' if pid is not None else 'has a device open'} on fabric {name!r}")
    return Faults(found)
