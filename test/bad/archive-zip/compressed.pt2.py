# Records that are compressed.
import sys
import zipfile

import made

with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
    for name, data in made.linear_records().items():
        archive.writestr("model/" + name, data)
