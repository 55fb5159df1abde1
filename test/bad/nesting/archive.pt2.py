# A model.json of 100,000 lists in lists.
import sys

import made

records = made.linear_records()
records["models/model.json"] = b"[" * 100000
made.write_archive(sys.argv[1], records)
