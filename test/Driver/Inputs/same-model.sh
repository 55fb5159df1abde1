#!/bin/sh
# same-model.sh PATH FOLDER: the folder PATH and the archive PATH.pt2.gz are one model, but for where values come from. Leaves both
# texts in FOLDER. Nothing is to be said about the folder's keys.
set -e
name=$(basename "$1")
without_values() { sed -e 's/ from #hyc\.[a-z]*<[^>]*>.*//' -e 's/, hyc\.model_folder = "[^"]*"//' -e 's/hyc\.model_folder = "[^"]*"//'; }
grep -q image_size "$1/config.json" || sequence="--dim seq=16"
hyc-compile "$1" --emit=model --micro-batch 2 $sequence -o "$2/$name.raw" 2> "$2/$name.messages"
cat "$2/$name.messages"
test ! -s "$2/$name.messages"
without_values < "$2/$name.raw" > "$2/$name.folder"
gzip -dc "$1.pt2.gz" > "$2/$name.pt2"
hyc-compile "$2/$name.pt2" --emit=model --micro-batch 2 -o "$2/$name.raw"
without_values < "$2/$name.raw" > "$2/$name.archive"
diff "$2/$name.archive" "$2/$name.folder"
