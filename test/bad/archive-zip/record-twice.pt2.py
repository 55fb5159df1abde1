# A record that is there twice.
import sys
import warnings
import zipfile

import made

warnings.simplefilter("ignore")

made.write_archive(sys.argv[1], made.linear_records())
with zipfile.ZipFile(sys.argv[1], "a") as archive:
    archive.writestr("model/models/model.json", "{}")
