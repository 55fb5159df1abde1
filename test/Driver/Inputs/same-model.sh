#!/bin/sh
# same-model.sh PATH FOLDER [PATTERN]: the folder PATH and the archive PATH.pt2.gz are one model, but for where values come from; whether they
# are frozen is compared. Leaves both texts in FOLDER. Nothing is to be said about the folder's keys. With a pattern, lines that it matches, in either text, may be others; so may
# numbers of values, and the outputs beside the first.
set -e
name=$(basename "$1")
without_values() { sed -e 's/ from #hyc\..*> frozen\( {.*}\)\{0,1\}$/ frozen/' -e 's/ from #hyc\.[a-z]*<[^>]*>.*//' -e 's/, hyc\.model_folder = "[^"]*"//' -e 's/hyc\.model_folder = "[^"]*"//'; }
rest() { sed -e 's/%[A-Za-z0-9_]*/%/g' -e 's/, tensor<[^>]*> {hyc\.output = "[^"]*"}//g' "$1" | grep -v -e "$2" -e 'hyc\.return'; }
grep -q image_size "$1/config.json" && ! grep -q max_position_embeddings "$1/config.json" || sequence="--dim seq=16"
hyc-compile "$1" --emit=model --micro-batch 2 $sequence -o "$2/$name.raw" 2> "$2/$name.messages"
cat "$2/$name.messages"
test ! -s "$2/$name.messages"
without_values < "$2/$name.raw" > "$2/$name.folder"
gzip -dc "$1.pt2.gz" > "$2/$name.pt2"
hyc-compile "$2/$name.pt2" --emit=model --micro-batch 2 -o "$2/$name.raw"
without_values < "$2/$name.raw" > "$2/$name.archive"
if [ -z "$3" ]; then
  diff "$2/$name.archive" "$2/$name.folder"
else
  rest "$2/$name.archive" "$3" > "$2/$name.archive.rest"
  rest "$2/$name.folder" "$3" > "$2/$name.folder.rest"
  diff "$2/$name.archive.rest" "$2/$name.folder.rest"
fi
