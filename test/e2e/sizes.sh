#!/usr/bin/env bash
# One folder for 8 and for 6 ranks, with dropout: 8 ranks train ten steps, 6 go on for ten, 8 for the last ten, under hyc-run
# and under torchrun, each as a command of its own with --resume auto. The losses of all thirty steps are within 1e-5 of
# those of 8 ranks that nobody stops, which they are only with the same samples and masks, and the checkpoints tell of as
# many samples. torchrun is skipped where it is not beside PYTHON.
#
# Usage: sizes.sh BUILD_DIR MODELS_DIR FOLDER PYTHON
set -euo pipefail
mkdir -p "$3"
bin=$(realpath "$1/bin") models=$(realpath "$2") folder=$(realpath "$3") rooms=$(dirname "${BASH_SOURCE[0]}")
torchrun=$(dirname "$(command -v "${4:-python3}" || echo none/none)")/torchrun
rm -rf "$folder" && mkdir -p "$folder"
# By six ranks of tp 2 the global batch has to be divided, too.
"$bin/hyc-compile" "$rooms/small-gpt2.json" --ranks 8,6 --tp 2 --pp 1 --micro-batch 1 --global-batch 24 --optimizer adamw \
  --lr 1e-3 -o "$folder/out" >"$folder/compile" 2>&1 || { cat "$folder/compile"; exit 1; }
run=("$bin/hyc-run" "$folder/out" --data "$models/text.bin" --seed 1 --threads 1)
export OMP_WAIT_POLICY=passive
"${run[@]}" --ranks 8 --steps 30 --log-file "$folder/whole" >"$folder/whole.said" 2>&1 || { cat "$folder/whole.said"; exit 1; }

steps() { grep '"loss"' "$1"; }
samples() { sed -nE 's/.*"samples": ?([0-9]+).*/\1/p' "$1/checkpoint.json" | head -1; }
status=0
check() {
  "$rooms/compare_losses.sh" <(steps "$folder/whole") <(steps "$folder/$1.jsonl") 1e-5 30 >"$folder/$1.compared" ||
    { echo "$1: the losses differ:"; cat "$folder/$1.compared"; status=1; return; }
  local step
  for step in 10 20 30; do
    [ "$(samples "$folder/$1/step-$step")" = $((24 * step)) ] ||
      { echo "$1: after step $step $(samples "$folder/$1/step-$step") samples were read, expected $((24 * step))"; status=1; }
  done
  echo "$1: 30 steps by 8, 6 and 8 ranks, as by 8"
}
by() { # NAME RANKS STEPS COMMAND…: what starts hyc-run on so many ranks, and its words
  local name=$1 ranks=$2 steps=$3; shift 3
  "$@" --steps "$steps" --checkpoint "$folder/$name" --resume auto --log-file "$folder/$name.jsonl" \
    >"$folder/$name.said$steps" 2>&1 || { echo "$name: $ranks ranks fail:"; tail -n 20 "$folder/$name.said$steps"; exit 1; }
}
for part in "8 10" "6 20" "8 30"; do
  read -r ranks steps <<<"$part"
  by hyc-run "$ranks" "$steps" "${run[@]}" --ranks "$ranks"
done
check hyc-run
if [ -x "$torchrun" ]; then
  for part in "8 10" "6 20" "8 30"; do
    read -r ranks steps <<<"$part"
    by torchrun "$ranks" "$steps" "$torchrun" --no-python --standalone --nproc-per-node "$ranks" "${run[@]}" --as-rank
  done
  check torchrun
else echo "skipped: there is no torchrun beside ${4:-python3}"; fi
exit $status
