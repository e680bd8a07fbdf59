# Generated from packages/redis_async/src/durably_redis_async/scanning.py by twin.py. Edit that file.
"""Going through a keyspace page by page, on one server or from node to node of a cluster."""

from __future__ import annotations

from typing import Any

from durably.queue_scripts import as_text

from durably_redis_sync._client import Call, is_cluster, patiently, send


def scan_some(client: Any, cursor: str, match: str, count: int) -> tuple[str, list[Any]]:
    """A page of the keys of hashes that match: the next cursor, `"0"` after the last page, and the keys.

    `count`: how many keys the server looks at. On a cluster the cursor says which node is next.
    """
    if not is_cluster(client):
        command = ("SCAN", cursor, "MATCH", match, "COUNT", count, "TYPE", "hash")
        following, keys = send(Call(client, command, list))
        return str(as_text(following)), list(keys)
    asked: Any = client

    def page() -> tuple[str, list[Any]]:
        nodes = {str(one.name): one for one in asked.get_primaries()}
        name, _, at = cursor.rpartition("/")
        if name not in nodes:  # the beginning, or a node that is gone: on with the next one
            name, at = min((one for one in nodes if one > name), default=""), "0"
        if not name:
            return "0", []
        cursors, keys = asked.scan(
            cursor=int(at), match=match, count=count, _type="HASH", target_nodes=nodes[name]
        )
        following = next(iter(cursors.values()))
        if following:
            return f"{name}/{following}", list(keys)
        later = min((one for one in nodes if one > name), default=None)
        return "0" if later is None else f"{later}/0", list(keys)

    return patiently(client, page)
