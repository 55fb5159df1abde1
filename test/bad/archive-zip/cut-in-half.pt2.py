# Cut off in the middle.
import sys

import made

made.write_archive(sys.argv[1], made.linear_records())
with open(sys.argv[1], "r+b") as file:
    file.truncate(file.seek(0, 2) // 2)
