# A header of 100,000 lists in lists.
import struct
import sys

sys.stdout.buffer.write(struct.pack("<Q", 100000) + b"[" * 100000)
