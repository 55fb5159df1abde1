"""rename_target.py ARCHIVE FROM TO OUT: an archive of torch.export with one operator called by another name."""
import sys
import zipfile

archive, old, new, out = sys.argv[1:]
with zipfile.ZipFile(archive) as whole, zipfile.ZipFile(out, "w") as changed:
    for record in whole.infolist():
        changed.writestr(record, whole.read(record).replace(old.encode(), new.encode()))
