"""A profile as trace events, which Perfetto and Chrome show as a time line of each thread.

The format is Google's "Trace Event Format": complete events ("X") with start and duration in
microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.run.profile import Profile


def trace_text(name: str, launches: Sequence[LaunchInfo], profile: Profile) -> bytes:
    """The JSON text of the run with the median time, with an event for each tile."""
    run = profile.typical
    start, end, thread = profile.start[run], profile.end[run], profile.thread[run]
    ran = end > 0
    begin = int(start[ran].min())
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": name}}
    ]
    for number in range(profile.threads):
        label = f"worker {number}" if number else "caller"
        events.append(
            {
                "ph": "M",
                "pid": 0,
                "tid": number,
                "name": "thread_name",
                "args": {"name": label},
            }
        )
    first: dict[int, int] = {}
    step_of: list[int] = profile.step_of.tolist()
    for i, step in enumerate(step_of):
        tile, launch = i - first.setdefault(step, i), int(profile.launch_of_step[step])
        if not ran[i]:
            continue
        info = launches[launch]
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": int(thread[i]),
                "name": info.label,
                "cat": info.kernel.rpartition("_")[0] or info.kernel,
                "ts": (int(start[i]) - begin) / 1e3,
                "dur": (int(end[i]) - int(start[i])) / 1e3,
                "args": {
                    "launch": launch,
                    "tile": tile,
                    "tiles": info.tiles,
                    "kernel": info.kernel,
                    "flops": info.work.flops,
                    "bytes": info.work.read + info.work.written,
                },
            }
        )
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode()
