"""A look at a server before workflows depend on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from durably.findings import Finding, findings
from durably.queue_scripts import as_text

from durably_redis_async._client import AnyRedis, ResponseError, check_client, everywhere


async def check_server(redis: AnyRedis) -> list[Finding]:
    """What the server can lose, or refuse, of what workflows need: the most serious first. Nothing is written.

    On a cluster each master is asked, and named in what was found. It asks INFO and CONFIG GET; where the server does
    not let this user run one of them, a finding says so. Raises what the connection raises, and `TypeError` for a
    client of another kind.
    """
    check_client(redis, text=False)
    try:
        infos = await everywhere(redis, "INFO")
    except ResponseError as error:
        return [
            Finding(
                "warning",
                "the server does not say how it is (INFO is refused)",
                f"Nothing can be found out: {error}",
                "Let this user run INFO, or look where the server is managed",
            )
        ]
    settings: dict[str, Any] = {}
    try:
        settings = await everywhere(redis, "CONFIG GET", "*")
    except ResponseError:
        pass
    found: list[Finding] = []
    for node, info in infos.items():
        told = findings(info, _texts(settings[node]) if node in settings else None)
        found += [replace(one, what=f"{node}: {one.what}") if node else one for one in told]
    return found


def _texts(settings: Any) -> dict[str, str]:
    return {str(as_text(name)): str(as_text(value)) for name, value in settings.items()}
