#!/bin/sh
# same-model.sh PATH FOLDER: the folder PATH and the archive PATH.pt2 are one model, but for where values come from. Leaves both
# texts in FOLDER.
set -e
name=$(basename "$1")
without_values() { sed -e 's/ from #hyc\.[a-z]*<[^>]*>.*//' -e 's/, hyc\.model_folder = "[^"]*"//' -e 's/hyc\.model_folder = "[^"]*"//'; }
hyc-compile "$1" --emit=model --micro-batch 2 --dim seq=16 -o "$2/$name.raw"
without_values < "$2/$name.raw" > "$2/$name.folder"
hyc-compile "$1.pt2" --emit=model --micro-batch 2 -o "$2/$name.raw"
without_values < "$2/$name.raw" > "$2/$name.archive"
diff "$2/$name.archive" "$2/$name.folder"
