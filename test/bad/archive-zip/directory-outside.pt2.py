# A directory that is said to begin beyond the file.
import sys

import made

made.write_archive(sys.argv[1], made.linear_records())
with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    end = data.rindex(b"PK\x05\x06")
    data[end + 16:end + 20] = (1 << 31).to_bytes(4, "little")
    file.seek(0)
    file.write(data)
