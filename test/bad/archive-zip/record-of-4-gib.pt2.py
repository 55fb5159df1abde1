# A record whose directory entry claims 2^32 - 2 bytes.
import sys

import made

made.write_archive(sys.argv[1], made.linear_records())
with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    entry = data.index(b"PK\x01\x02")
    data[entry + 20:entry + 28] = (0xFFFFFFFE).to_bytes(4, "little") * 2
    file.seek(0)
    file.write(data)
