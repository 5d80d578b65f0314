"""What the compiled module offers: what ``_pure_lines`` offers."""

def lines(
    wire: bytes, count: int, prefix: int, first: int, head: bytes, middle: bytes, gateway: str, device: str
) -> tuple[list[bytes], list[tuple[int, str, str]]]: ...
