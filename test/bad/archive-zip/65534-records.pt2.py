# A directory that is said to have more records than it has.
import sys

import made

made.write_archive(sys.argv[1], made.linear_records())
with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    end = data.rindex(b"PK\x05\x06")
    data[end + 8:end + 12] = (65534).to_bytes(2, "little") * 2
    file.seek(0)
    file.write(data)
