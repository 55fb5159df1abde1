# Bytes after the end record.
import sys

import made

made.write_archive(sys.argv[1], made.linear_records())
with open(sys.argv[1], "ab") as file:
    file.write(b"more")
