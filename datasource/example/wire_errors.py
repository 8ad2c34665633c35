"""What is wrong with bytes that should be a ``tf.train.Example``."""

__all__ = ["WireError"]


class WireError(ValueError):
    """Bytes are no ``tf.train.Example``.

    Attributes:
      message: What is wrong.
      offset: The byte of the record at which that shows.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message, offset)
        self.message = message
        self.offset = offset

    def __str__(self) -> str:
        return f"no tf.train.Example: byte {self.offset} of the record: {self.message}"
