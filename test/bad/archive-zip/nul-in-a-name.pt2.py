# A record whose name has a NUL, which zipfile would end the name at.
import sys

import made

made.write_archive(sys.argv[1], made.linear_records())
with open(sys.argv[1], "r+b") as file:
    data = file.read().replace(b"models/model.json", b"models/mode\0.json")
    file.seek(0)
    file.write(data)
