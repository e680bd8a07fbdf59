"""A look at a server before workflows depend on it."""

from __future__ import annotations

from durably.findings import Finding, findings
from durably.queue_scripts import as_text

from durably_redis_async._client import Redis, ResponseError, check_client, patiently


async def check_server(redis: Redis) -> list[Finding]:
    """What the server can lose, or refuse, of what workflows need: the most serious first. Nothing is written.

    It asks INFO and CONFIG GET; where the server does not let this user run one of them, a finding says so. Raises
    what the connection raises, and `TypeError` for a client of another kind.
    """
    check_client(redis, text=False)
    try:
        info = await patiently(redis.info)
    except ResponseError as error:
        return [
            Finding(
                "warning",
                "the server does not say how it is (INFO is refused)",
                f"Nothing can be found out: {error}",
                "Let this user run INFO, or look where the server is managed",
            )
        ]
    try:
        settings = await patiently(lambda: redis.config_get("*"))
    except ResponseError:
        return findings(info, None)
    return findings(info, {str(as_text(name)): str(as_text(value)) for name, value in settings.items()})
