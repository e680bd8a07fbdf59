import zstandard
from durably import MsgspecCodec


class ZstdCodec:
    inner = MsgspecCodec()

    def encode(self, value: object) -> bytes:
        return zstandard.compress(self.inner.encode(value).encode())

    def decode(self, encoded: bytes) -> object:
        return self.inner.decode(zstandard.decompress(encoded).decode())
