# A header of 12 MB of empty lists.
import struct
import sys

header = b'{"a":[' + b'[],' * 4000000 + b'[]]}'
sys.stdout.buffer.write(struct.pack("<Q", len(header)) + header)
