# A zip file without a record.
import sys

import made

made.write_archive(sys.argv[1], {})
