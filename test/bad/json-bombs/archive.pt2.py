# A model.json of 12 MB of empty lists.
import sys

import made

records = made.linear_records()
records["models/model.json"] = b'{"a":[' + b'[],' * 4000000 + b'[]]}'
made.write_archive(sys.argv[1], records)
