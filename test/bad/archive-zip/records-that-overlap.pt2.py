# Two records of the directory at one place.
import sys

import made

made.write_archive(sys.argv[1], made.linear_records())
with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 4)
    data[second + 42:second + 46] = data[first + 42:first + 46]
    file.seek(0)
    file.write(data)
