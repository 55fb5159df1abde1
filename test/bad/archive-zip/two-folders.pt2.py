# Records in two folders, where torch has one.
import sys

import made

records = made.linear_records()
names = {("a/" if i % 2 else "b/") + name: data for i, (name, data) in enumerate(records.items())}
made.write_archive(sys.argv[1], names, root="")
